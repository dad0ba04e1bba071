"""Definitions of custom resources, and the kinds that they define."""
