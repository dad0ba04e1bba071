"""metrics.k8s.io, as served by metrics-server. ``kinds`` has the records, ``handlers`` the responses."""
