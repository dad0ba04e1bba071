"""Code that every dralab service shares: API types, CEL, the client and its informers."""

#: The version of dralab. All of its packages have the same version.
__version__ = "0.1.0"
