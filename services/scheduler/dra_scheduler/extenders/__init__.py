"""HTTP extenders: external servers that take part in the choice of nodes."""
