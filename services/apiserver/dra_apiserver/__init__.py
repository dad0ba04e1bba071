"""The dralab API server."""
