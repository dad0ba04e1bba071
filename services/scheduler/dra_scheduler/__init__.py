"""The dralab scheduler."""
