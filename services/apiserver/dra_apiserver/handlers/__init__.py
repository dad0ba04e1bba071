"""The verbs of the resource API."""
