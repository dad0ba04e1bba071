"""HTTP extenders: servers of other people's that have a say in where pods go."""
