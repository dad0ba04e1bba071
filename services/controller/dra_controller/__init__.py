"""The dralab controllers."""
