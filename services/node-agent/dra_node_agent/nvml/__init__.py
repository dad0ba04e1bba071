"""GPUs that are not there: a simulated NVML under the real ``pynvml``.

``library`` plugs it in beneath pynvml, so that drivers call the same wrappers as on a real node; ``system`` is
the state of one node's GPUs; ``models`` the data of the GPU models; ``smi`` prints what nvidia-smi would.
"""
