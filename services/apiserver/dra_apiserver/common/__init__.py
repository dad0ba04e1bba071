"""Common code for kinds: metadata, names, lists, conditions, gates, table cells."""
