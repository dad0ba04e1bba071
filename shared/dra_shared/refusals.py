"""Pods of plans that an API server would refuse."""

#: The annotation with the API server's message.
REFUSED = "plan.dralab.dev/refused"
