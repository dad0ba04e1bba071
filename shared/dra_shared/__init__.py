"""Code that every dralab service shares: API types, CEL, the client and its informers."""

#: The version of dralab, and of each of its parts.
__version__ = "0.1.0"
