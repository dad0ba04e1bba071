"""A driver root of simulated GPUs for programs that load libnvidia-ml.so themselves, such as NVIDIA's DRA driver."""
