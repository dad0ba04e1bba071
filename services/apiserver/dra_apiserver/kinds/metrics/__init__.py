"""metrics.k8s.io, as metrics-server serves it. ``kinds`` has the records, ``handlers`` the answers."""
