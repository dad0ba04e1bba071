"""The older DRA of Kubernetes 1.26 to 1.31, served on request. ``kinds`` has the records."""
