"""Work with any Kubernetes cluster: choose it, discover its resources, read manifests, apply, watch and wait."""
