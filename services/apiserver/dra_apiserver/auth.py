"""Who asks. Every caller of the loopback port is the cluster's administrator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class UserInfo:
    """A caller, as strategies, admission and reviews see it."""

    name: str
    uid: str = field(default="", kw_only=True)
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


ADMINISTRATOR = UserInfo("system:admin", ("system:masters", "system:authenticated"))
