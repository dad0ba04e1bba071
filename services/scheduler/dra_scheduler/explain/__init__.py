"""Explains why a pod is pending or where it is, with the allocator's own trace."""
