"""Faults on demand: their effects, the promises that Kubernetes makes for them, and whether they were kept."""
