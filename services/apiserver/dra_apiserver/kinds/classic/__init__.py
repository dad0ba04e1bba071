"""The older DRA of Kubernetes 1.26 to 1.31, served if it is asked for. ``kinds`` has the records."""
