"""Benchmarks: each prints numbers, none asserts them."""
