"""Finite problems solved by linear algebra: values and occupancies, and the paper's bounds."""
