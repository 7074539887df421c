"""What is measured of the library and is not part of it."""
