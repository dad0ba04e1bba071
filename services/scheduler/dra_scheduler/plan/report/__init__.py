"""Reports: one self-contained HTML page for the answer of any question of the planner."""
