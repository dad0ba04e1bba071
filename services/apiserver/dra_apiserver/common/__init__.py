"""What the rooms have in common: metadata, names, lists, conditions, gates, cells of tables."""
