"""What each kind of object is and does: one room a group, one record a kind. ``catalog`` imports them all."""
