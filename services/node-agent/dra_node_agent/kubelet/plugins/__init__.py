"""Finding plugins by their sockets and registering them (pkg/kubelet/pluginmanager)."""
