"""Faults on demand: inject them, and check whether the guarantees of Kubernetes held during each."""
