"""node.k8s.io: runtime classes. ``kinds`` has the records."""
