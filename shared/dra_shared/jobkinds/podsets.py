"""The pods that an object of a job kind asks for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dra_shared.jsontypes import JsonObject


@dataclass(frozen=True)
class PodSet:
    """Pods with one template: ``count`` of them in each gang."""

    name: str
    count: int
    template: JsonObject


@dataclass(frozen=True)
class Gangs:
    """A number of equal gangs. The pods of a gang are of use only together.

    ``together`` is the number of pods of a gang that a scheduler starts together or not at all; None if the operator
    leaves each pod to the scheduler.
    """

    number: int
    sets: tuple[PodSet, ...]
    together: int | None = None

    @property
    def size(self) -> int:
        """The number of pods in each gang."""
        return sum(one.count for one in self.sets)


class UnknownReference(Exception):
    """The object refers to another object that does not exist. The message names the missing object."""


Lookup = Callable[[str, str, str], JsonObject | None]
"""Returns the object of a kind, namespace and name that another one refers to; None if there is none."""


def integer(values: Mapping[str, object], name: str, default: int) -> int:
    """Return the field if it is a number, and ``default`` if it is absent."""
    value = values.get(name)
    return value if isinstance(value, int) else default
