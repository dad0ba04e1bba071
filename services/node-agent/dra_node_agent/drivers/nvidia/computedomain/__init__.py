"""NVIDIA's driver for compute domains: nodes that share GPU memory over NVLink through IMEX channels.

Its parts are those of dra-driver-nvidia-gpu: the kubelet plugin (:mod:`.driver`), the controller
(:mod:`.controller`), and the daemon that each node of a domain runs (:mod:`.daemon`).
"""

DRIVER_NAME = "compute-domain.nvidia.com"
