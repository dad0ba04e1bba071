"""authentication.k8s.io: reviews of who a user is; nothing is stored. ``kinds`` has the records."""
