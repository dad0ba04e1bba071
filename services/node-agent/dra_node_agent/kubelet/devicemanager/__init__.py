"""Device plugins: extended resources from plugins on the node (pkg/kubelet/cm/devicemanager)."""
