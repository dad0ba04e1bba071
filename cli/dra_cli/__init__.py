"""The dralab command."""
