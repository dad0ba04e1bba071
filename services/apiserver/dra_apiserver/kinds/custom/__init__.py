"""Definitions of custom resources, and the kinds that they define: the second implementation of a kind."""
