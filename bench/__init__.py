"""Benchmarks: they print figures, and no benchmark fails because of a figure."""
