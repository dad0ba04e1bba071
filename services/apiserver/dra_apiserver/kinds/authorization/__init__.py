"""authorization.k8s.io: reviews of what a user may do; nothing is stored. ``kinds`` has the records."""
