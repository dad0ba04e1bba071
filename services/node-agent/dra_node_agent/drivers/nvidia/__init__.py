"""The driver ``gpu.nvidia.com``, after NVIDIA's dra-driver-nvidia-gpu."""

DRIVER_NAME = "gpu.nvidia.com"
