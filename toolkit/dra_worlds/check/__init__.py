"""``dralab check``: find what another version of Kubernetes rejects, drops or does differently."""
