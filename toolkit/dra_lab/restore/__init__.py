"""``dralab up --from``: start a cluster from a dump, or from the objects of a running cluster."""
