"""internal.apiserver.k8s.io: the storage versions of API servers. ``kinds`` has the records."""
