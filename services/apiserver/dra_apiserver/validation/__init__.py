"""Validation of resource.k8s.io objects, as Kubernetes 1.36 does it.

One module a kind, functions over objects in their stored version. Errors come in upstream's order
(`pkg/apis/resource/validation/validation.go`) with upstream's wording; paths are those of the stored version.
"""
