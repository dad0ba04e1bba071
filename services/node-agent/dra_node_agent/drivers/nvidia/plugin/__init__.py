"""NVIDIA's device plugin (k8s-device-plugin): the same GPUs as a countable resource."""

PLUGIN_NAME = "nvidia-device-plugin"
