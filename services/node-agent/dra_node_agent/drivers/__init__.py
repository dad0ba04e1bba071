"""DRA drivers: what finds a node's devices, publishes them and prepares claims.

A driver meets the kubelet only over the sockets of ``plugin.KubeletPlugin``; ``catalog`` names the drivers that
can be asked for.
"""
