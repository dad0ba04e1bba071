"""The console for any cluster that a kubeconfig reaches: its pages, and a proxy that has the user's credentials."""
