"""lifecycle.k8s.io: eviction requests and evictions. ``kinds`` has the records."""
