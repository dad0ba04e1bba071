"""Who asks. Every caller of the loopback port is the cluster's administrator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UserInfo:
    """A caller, as strategies, admission and reviews see it."""

    name: str
    groups: tuple[str, ...] = ()


ADMINISTRATOR = UserInfo("system:admin", ("system:masters", "system:authenticated"))
