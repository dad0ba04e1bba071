"""Faults of services' processes.

A supervisor implements :class:`Processes`; the function ``strike`` calls its methods.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import msgspec

from dra_shared.faults.kind import Count, Kind, Where
from dra_shared.faults.places import API_SERVER


class ProcessFault(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """A fault of processes. One without a duration lasts 0 seconds."""

    fault: str
    seconds: float = 0.0


class ServiceFault(ProcessFault, kw_only=True, frozen=True):
    """A fault of a service's process."""

    service: str = API_SERVER


class Processes(Protocol):
    """The processes of a cluster."""

    def kill(self, service: str) -> None:
        """Kill the process of the service without warning. The supervisor starts it again."""
        ...

    def stop(self, service: str) -> AbstractAsyncContextManager[None]:
        """Stop the process with SIGSTOP during the context."""
        ...

    def add_scheduler(self) -> AbstractAsyncContextManager[None]:
        """Run a second scheduler during the context, without leader election."""
        ...


ProcessStrike = Callable[[Processes, Any], AbstractAsyncContextManager[Count | None]]


@dataclass(frozen=True, kw_only=True)
class ProcessKind(Kind):
    """A fault of a service's process."""

    where: ClassVar[Where] = "process"

    strike: ProcessStrike
    spec: type[Any] = ServiceFault


@dataclass(frozen=True, kw_only=True)
class SchedulingKind(Kind):
    """A fault of the scheduling itself."""

    where: ClassVar[Where] = "scheduling"

    strike: ProcessStrike
    spec: type[Any] = ProcessFault
