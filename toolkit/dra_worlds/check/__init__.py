"""``dralab check``: find objects that another version of Kubernetes rejects, fields that it drops, and the like."""
