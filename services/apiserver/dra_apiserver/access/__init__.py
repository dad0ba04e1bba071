"""Authorize HTTP requests: decide which user a request acts as, and ask the authorizer about it."""
