"""Write and load a policy that runs without gamps."""
