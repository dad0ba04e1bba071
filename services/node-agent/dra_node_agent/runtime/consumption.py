"""The simulated resource usage of containers: constant rates that pods and images declare.

A rate is the first of these that exists: the annotation of the pod, the behaviour of the image, the request
of the container, :data:`_IDLE`. It never exceeds the limit of the container.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from dra_shared.quantity import Quantity, QuantityError

from dra_node_agent.runtime.base import Consumption, ContainerSpec
from dra_node_agent.runtime.container import annotation
from dra_node_agent.runtime.images import ImageBehaviour

CPU_USAGE = "dralab.dev/cpu-usage"
MEMORY_USAGE = "dralab.dev/memory-usage"

_ANNOTATIONS = {"cpu": CPU_USAGE, "memory": MEMORY_USAGE}
_IDLE = {"cpu": "1m", "memory": "8Mi"}


@dataclass(frozen=True)
class Rates:
    """Rates of use: CPU in cores, memory in bytes."""

    cpu: float
    memory: int

    def over(self, start: datetime, end: datetime) -> Consumption:
        """Return the usage from ``start`` to ``end``."""
        return Consumption(self.cpu * max((end - start).total_seconds(), 0.0), self.memory)


#: The rates of the simulated processes outside containers.
SYSTEM = Rates(0.05, 512 << 20)


def rates(spec: ContainerSpec, behaviour: ImageBehaviour | None) -> Rates:
    """Return the rates of a container whose image has this behaviour."""
    declared = behaviour.usage if behaviour is not None else {}
    cpu, memory = (_amount(spec, declared, name) for name in ("cpu", "memory"))
    return Rates(cpu.as_approximate_float(), memory.value())


def _amount(spec: ContainerSpec, declared: Mapping[str, str], name: str) -> Quantity:
    texts = (annotation(spec, _ANNOTATIONS[name]), declared.get(name), spec.requests.get(name), _IDLE[name])
    wanted = next(_quantities(texts))
    limit = next(_quantities((spec.limits.get(name),)), None)
    return wanted if limit is None else min(wanted, limit)


def _quantities(texts: tuple[str | None, ...]) -> Iterator[Quantity]:
    """Yield the texts that are amounts. Others are skipped, like unreadable annotations."""
    for text in texts:
        try:
            found = Quantity.parse(text) if text else None
        except QuantityError:
            continue
        if found is not None and found.sign() >= 0:
            yield found
