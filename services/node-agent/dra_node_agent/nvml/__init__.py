"""Simulated GPUs: a simulated NVML under the real ``pynvml``.

``library`` installs it beneath pynvml, so that drivers call the same wrappers as on a real node. ``system``
is the state of one node's GPUs, ``models`` the data of GPU models, and ``smi`` prints the output of
nvidia-smi.
"""
