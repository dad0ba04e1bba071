"""Faults on demand: which there are, what Kubernetes promises then, and whether it was kept."""
