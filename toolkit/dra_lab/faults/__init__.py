"""Faults on demand: what can go wrong, what the contract promises then, and whether it was kept."""
