"""Explains why a pod is pending or placed, with the allocator's own trace."""
