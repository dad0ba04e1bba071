"""The scheduler on a world in memory."""
