"""Errors for pods of plans that an API server would reject."""

#: The annotation with the API server's message.
REFUSED = "plan.dralab.dev/refused"
