"""What a test's cluster is like."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dra_shared.features import FeatureGates, with_defaults
from dra_shared.serviceversions import lab_gates
from dra_shared.version import DEFAULT, Version

NVIDIA = "gpu.nvidia.com"


@dataclass(frozen=True)
class Options:
    """How a cluster is started.

    Args:
        nodes: how many nodes, named node-0, node-1, …
        gpus: the GPUs of each, as for ``dralab up --gpus``.
        drivers: the drivers of each: names or files of profiles.
        version: the version of Kubernetes to follow, such as 1.34.
        gates: feature gates of that version, after those that ``dralab up`` turns on.
        processes: whether the services are processes of their own, instead of tasks in this one.
        fake_clock: whether time passes only as the test says; not with ``processes``.
    """

    nodes: int = 1
    gpus: str = "8xA100-SXM4-40GB"
    drivers: tuple[str, ...] = (NVIDIA,)
    version: str = str(DEFAULT)
    gates: Mapping[str, bool] = field(default_factory=dict)
    processes: bool = False
    fake_clock: bool = False

    def __post_init__(self) -> None:
        if self.processes and self.fake_clock:
            raise ValueError("processes have clocks of their own: fake_clock needs a cluster in this process")
        object.__setattr__(self, "drivers", tuple(self.drivers))
        object.__setattr__(self, "version", str(Version.parse(self.version)))
        # A gate that the version does not have is an error here, and not of the first service.
        FeatureGates.parse(self.gates_flag, Version.parse(self.version))

    @property
    def features(self) -> FeatureGates:
        """The gates of all services.

        Raises:
            ValueError: the version has no such gate.
        """
        return FeatureGates.parse(self.gates_flag, Version.parse(self.version))

    @property
    def gates_flag(self) -> str:
        """The gates as ``--feature-gates`` takes them."""
        wanted = ",".join(f"{name}={str(on).lower()}" for name, on in self.gates.items())
        version = Version.parse(self.version)
        return with_defaults(lab_gates(version), wanted, version)

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for options that ask for equal clusters."""
        gates = tuple(sorted(self.gates.items()))
        return (self.nodes, self.gpus, self.drivers, self.version, gates, self.processes, self.fake_clock)
