"""``plan pack``: unusable free devices, the remaining room of nodes, and moves that make room."""
