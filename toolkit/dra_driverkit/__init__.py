"""The driver kit: the parts that every DRA driver needs, like kubeletplugin of k8s.io/dynamic-resource-allocation.

``server.DriverServer`` registers, publishes and serves the kubelet. ``store.ClaimStore`` remembers prepared
claims and writes their CDI files. ``opaque.Configs`` decodes the configuration of claims. ``program.run`` is
the driver's process. The package ``dralab.driver`` is its public face.
"""
