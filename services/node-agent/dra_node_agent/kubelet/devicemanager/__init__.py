"""Device plugins: extended resources of plugins on the node (pkg/kubelet/cm/devicemanager)."""
