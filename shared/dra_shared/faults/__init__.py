"""Faults on demand: their kinds, the guarantees that Kubernetes gives during each, and the checks of these."""
