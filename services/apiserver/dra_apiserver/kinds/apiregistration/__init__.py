"""apiregistration.k8s.io: API services. ``kinds`` has the records."""
