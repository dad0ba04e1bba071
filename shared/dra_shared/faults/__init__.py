"""Faults on demand: the kinds of faults, the promises of Kubernetes for each, and the check of those promises."""
