"""The core group without pods, services and volumes: namespaces, nodes, config maps, secrets, quotas, events."""
