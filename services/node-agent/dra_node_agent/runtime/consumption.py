"""What simulated containers seem to consume: constant rates that pods and images declare.

A rate is, in this order, what the pod's annotation says, what the image's behaviour says, what the container requests,
and :data:`_IDLE`; never more than the container's limit.
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
    """CPU in cores, memory in bytes."""

    cpu: float
    memory: int

    def over(self, start: datetime, end: datetime) -> Consumption:
        """What is consumed from ``start`` to ``end``."""
        return Consumption(self.cpu * max((end - start).total_seconds(), 0.0), self.memory)


#: Of what a node runs outside containers.
SYSTEM = Rates(0.05, 512 << 20)


def rates(spec: ContainerSpec, behaviour: ImageBehaviour | None) -> Rates:
    """The rates of a container of an image with this behaviour."""
    declared = behaviour.usage if behaviour is not None else {}
    cpu, memory = (_amount(spec, declared, name) for name in ("cpu", "memory"))
    return Rates(cpu.as_approximate_float(), memory.value())


def _amount(spec: ContainerSpec, declared: Mapping[str, str], name: str) -> Quantity:
    texts = (annotation(spec, _ANNOTATIONS[name]), declared.get(name), spec.requests.get(name), _IDLE[name])
    wanted = next(_quantities(texts))
    limit = next(_quantities((spec.limits.get(name),)), None)
    return wanted if limit is None else min(wanted, limit)


def _quantities(texts: tuple[str | None, ...]) -> Iterator[Quantity]:
    """Those that are an amount of something; others are passed over, as unreadable annotations are."""
    for text in texts:
        try:
            found = Quantity.parse(text) if text else None
        except QuantityError:
            continue
        if found is not None and found.sign() >= 0:
            yield found
