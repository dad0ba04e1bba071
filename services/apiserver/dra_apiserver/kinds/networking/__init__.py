"""Services, endpoints and their slices, and networking.k8s.io. ``kinds`` has the records."""
