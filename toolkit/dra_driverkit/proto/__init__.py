"""The kubelet's plugin protocols: a module with the messages of each .proto file in this folder.

`tools/protos` writes their descriptors and types. Service and message names, field numbers and types are those of the
kubelet's own protocols (k8s.io/kubelet/pkg/apis), so either side may be the real component.
"""
