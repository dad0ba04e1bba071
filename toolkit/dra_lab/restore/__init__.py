"""``dralab up --from``: a cluster that goes on from a dump, or from a running cluster."""
