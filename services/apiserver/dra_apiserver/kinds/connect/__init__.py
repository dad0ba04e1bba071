"""Subresources that connect a client to a pod, a node or a service: exec, logs, port forwarding, proxies."""
