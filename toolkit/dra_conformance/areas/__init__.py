"""The checks, an area a module."""
