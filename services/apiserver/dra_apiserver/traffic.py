"""Observe and hold requests, for programs that run the server in their own process.

Not part of upstream; the nearest is the audit log (staging/src/k8s.io/apiserver/pkg/audit).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(slots=True)
class Visit:
    """One request.

    Args:
        verb: the verb of RBAC; empty for non-resource requests and for rejected ones. code: the status code of
        its response; 0 before there is one. warnings: the response's warnings, such as those about unknown
        fields.
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
    """Observes the requests of known users."""

    async def arrive(self, visit: Visit, /) -> None:
        """Called when a request was admitted. The request waits until this returns.

        Raises:
            StatusError: the response to send.
        """
        ...

    def depart(self, visit: Visit, /) -> None:
        """Called when a request was answered, or rejected before it was admitted."""
        ...
