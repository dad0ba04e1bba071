"""certificates.k8s.io: requests for certificates. ``kinds`` has the records."""
