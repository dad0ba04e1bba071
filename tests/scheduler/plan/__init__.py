"""The scheduler on a cluster in memory."""
