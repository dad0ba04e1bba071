"""The dralab command."""

PROGRAM = "dralab"
