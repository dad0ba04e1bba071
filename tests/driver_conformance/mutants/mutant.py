"""The base class of all mutants."""

from typing import ClassVar

from tests.driver_conformance.reference import Reference


class Mutant(Reference):
    """The reference driver with one bug.

    ``check`` is the check that has to name it, ``source`` where the bug, or its like in a kubelet, was reported.
    """

    check: ClassVar[str] = ""
    source: ClassVar[str] = ""


_SIGS = "https://github.com/kubernetes-sigs"
KUBERNETES = "https://github.com/kubernetes/kubernetes"
NVIDIA = f"{_SIGS}/dra-driver-nvidia-gpu"
EXAMPLE = f"{_SIGS}/dra-example-driver"
CPU = f"{_SIGS}/dra-driver-cpu"
ROCM = "https://github.com/ROCm/k8s-gpu-dra-driver"
