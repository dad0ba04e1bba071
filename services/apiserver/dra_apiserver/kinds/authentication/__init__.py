"""authentication.k8s.io: reviews of a user's identity; nothing is stored. ``kinds`` has the records."""
