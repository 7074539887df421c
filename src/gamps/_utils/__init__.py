"""Small tools of the package's own; nothing here is public."""
