"""Which pod is tried next, and what makes a rejected one worth another try."""
