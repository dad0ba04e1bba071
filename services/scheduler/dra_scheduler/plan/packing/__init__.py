"""``plan pack``: find free devices that no pod can use, pods that still fit, and moves that make room for others."""
