"""A policy that runs without gamps: write it, load it."""
