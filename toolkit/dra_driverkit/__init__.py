"""The driver kit: what every DRA driver needs, as kubeletplugin of k8s.io/dynamic-resource-allocation has it.

``server.DriverServer`` registers, publishes, and serves the kubelet; ``store.ClaimStore`` remembers prepared claims and
writes their CDI files; ``opaque.Configs`` decodes what claims ask for; ``program.run`` is the driver's process. The
package ``dralab.driver`` is its public face.
"""
