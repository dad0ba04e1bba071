"""DRA drivers: what finds a node's devices, publishes them and prepares claims.

A driver meets the kubelet only over the sockets of ``server.DriverServer``; ``catalog`` names the drivers that
can be asked for.
"""
