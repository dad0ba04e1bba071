"""internal.apiserver.k8s.io: which versions API servers store. ``kinds`` has the records."""
