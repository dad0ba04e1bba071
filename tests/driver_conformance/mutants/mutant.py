"""The base class of all mutants."""

from typing import ClassVar

from tests.driver_conformance.reference import Reference


class Mutant(Reference):
    """The reference driver with one bug.

    ``check`` is the id of the check that has to fail. ``source`` is the report of the bug, or of a similar
    bug in a kubelet.
    """

    check: ClassVar[str] = ""
    source: ClassVar[str] = ""


_SIGS = "https://github.com/kubernetes-sigs"
KUBERNETES = "https://github.com/kubernetes/kubernetes"
NVIDIA = f"{_SIGS}/dra-driver-nvidia-gpu"
EXAMPLE = f"{_SIGS}/dra-example-driver"
CPU = f"{_SIGS}/dra-driver-cpu"
ROCM = "https://github.com/ROCm/k8s-gpu-dra-driver"
