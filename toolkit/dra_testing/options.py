"""Options of a test's cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dra_controller.jobkinds.operators import complete
from dra_shared.features import FeatureGates, with_defaults
from dra_shared.serviceversions import lab_gates
from dra_shared.version import DEFAULT, Version

NVIDIA = "gpu.nvidia.com"


@dataclass(frozen=True)
class Options:
    """Options of a cluster.

    Args:
        nodes: the number of nodes, named node-0, node-1, …
        gpus: the GPUs of each node, as for ``dralab up --gpus``.
        drivers: the drivers of each node: names or files of profiles.
        version: the version of Kubernetes to follow, such as 1.34.
        gates: feature gates of that version, in addition to those that ``dralab up`` turns on.
        processes: run the services as processes instead of tasks in this process.
        operators: the operators whose kinds make pods, as for ``dralab up --with``.
        fake_clock: let time pass only when the test advances it; not with ``processes``.
    """

    nodes: int = 1
    gpus: str = "8xA100-SXM4-40GB"
    drivers: tuple[str, ...] = (NVIDIA,)
    version: str = str(DEFAULT)
    gates: Mapping[str, bool] = field(default_factory=dict)
    processes: bool = False
    fake_clock: bool = False
    operators: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.processes and self.fake_clock:
            raise ValueError("processes have clocks of their own: fake_clock needs a cluster in this process")
        object.__setattr__(self, "drivers", tuple(self.drivers))
        object.__setattr__(self, "operators", tuple(sorted(complete(self.operators))))
        object.__setattr__(self, "version", str(Version.parse(self.version)))
        # Reject a gate that the version does not have here, rather than when the first service starts.
        FeatureGates.parse(self.gates_flag, Version.parse(self.version))

    @property
    def features(self) -> FeatureGates:
        """The feature gates of all services.

        Raises:
            ValueError: the version has no such gate.
        """
        return FeatureGates.parse(self.gates_flag, Version.parse(self.version))

    @property
    def gates_flag(self) -> str:
        """The value of ``--feature-gates``."""
        wanted = ",".join(f"{name}={str(on).lower()}" for name, on in self.gates.items())
        version = Version.parse(self.version)
        return with_defaults(lab_gates(version), wanted, version)

    @property
    def key(self) -> tuple[object, ...]:
        """A key that is equal for options of equal clusters."""
        gates = tuple(sorted(self.gates.items()))
        return (
            self.nodes,
            self.gpus,
            self.drivers,
            self.version,
            gates,
            self.processes,
            self.fake_clock,
            self.operators,
        )
