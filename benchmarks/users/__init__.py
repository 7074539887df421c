"""Logs as people have them, made by plants that can be asked for the truth afterwards."""
