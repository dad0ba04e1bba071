"""The kubelet's plugin protocols: message and service modules, generated from the .proto files in this folder.

`tools/protos` regenerates them. Service and message names, field numbers and types are those of the
kubelet's own protocols (k8s.io/kubelet/pkg/apis), so either side may be the real component.
"""
