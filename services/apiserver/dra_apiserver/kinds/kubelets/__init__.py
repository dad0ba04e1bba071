"""The permissions of kubelets: the Node authorizer and the NodeRestriction admission plugin."""
