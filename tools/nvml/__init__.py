"""A directory with libnvidia-ml.so for simulated GPUs, for programs that load NVML, such as NVIDIA's DRA driver."""
