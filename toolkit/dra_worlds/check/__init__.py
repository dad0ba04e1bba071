"""``dralab check``: what another version of Kubernetes refuses, drops or does otherwise."""
