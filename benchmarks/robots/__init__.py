"""Robots of MuJoCo as a user would have them: a trained controller, its logs, the known rewards."""
