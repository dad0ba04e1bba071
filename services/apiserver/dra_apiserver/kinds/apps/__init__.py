"""apps: Deployments, ReplicaSets, StatefulSets, DaemonSets; ReplicationControllers. ``kinds`` has the records."""
