"""Sweeps of a file: its variants and arrivals, and the processes or the cluster that try them."""
