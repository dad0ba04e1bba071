"""storagemigration.k8s.io. ``kinds`` has the records."""
