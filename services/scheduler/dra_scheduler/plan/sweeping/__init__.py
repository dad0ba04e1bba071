"""``plan sweep``: many variants of a world, each with the same timelines."""
