"""The console for any cluster that a kubeconfig reaches: its pages, and a proxy with the user's credentials."""
