"""The scheduling framework: extension points, statuses, cycle state, the cache of nodes."""
