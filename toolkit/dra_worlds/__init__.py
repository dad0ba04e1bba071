"""Worlds: a cluster's objects as a value. Read them, describe them, anonymize them, check them, ask the planner."""
