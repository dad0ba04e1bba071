"""policy: disruption budgets of pods. ``kinds`` has the records."""
