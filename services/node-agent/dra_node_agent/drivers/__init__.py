"""DRA drivers: they discover a node's devices, publish them and prepare claims.

A driver talks to the kubelet only over the sockets of ``server.DriverServer``. ``catalog`` lists the
available drivers.
"""
