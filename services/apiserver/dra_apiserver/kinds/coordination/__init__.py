"""coordination.k8s.io: leases. ``kinds`` has the records."""
