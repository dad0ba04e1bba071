"""Registration: the kubelet finds plugins by their sockets (pkg/kubelet/pluginmanager)."""
