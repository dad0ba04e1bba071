"""Who asks the server what: for a program that runs the server in its own process, and wants to see or stop requests.

No counterpart upstream; the nearest is the audit log (staging/src/k8s.io/apiserver/pkg/audit).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(slots=True)
class Visit:
    """One request.

    Args:
        verb: as RBAC has it; empty for what is no resource, and for a request that was refused before.
        code: its answer's status, 0 until there is one.
        warnings: the answer's warnings, such as of fields that this server does not know.
    """

    user: str
    agent: str
    method: str
    path: str
    query: str
    verb: str = ""
    code: int = 0
    warnings: Sequence[str] = ()


class Traffic(Protocol):
    """Looks at the requests of known users."""

    async def arrive(self, visit: Visit, /) -> None:
        """A request was admitted. It waits for as long as this does.

        Raises:
            StatusError: it is answered with that.
        """
        ...

    def depart(self, visit: Visit, /) -> None:
        """A request was answered, or refused before it arrived."""
        ...
