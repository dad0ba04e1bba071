"""scheduling.k8s.io: priority classes, workloads and pod groups. ``kinds`` has the records."""
