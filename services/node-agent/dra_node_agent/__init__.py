"""The dralab node agent: kubelet, runtimes and drivers."""
