"""A kubelet under test: its API server, its drivers, and the clients of its streams."""
