"""What kubelets may do: the Node authorizer and the NodeRestriction admission plugin."""
