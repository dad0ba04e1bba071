"""Who asks. A caller who does not say is the cluster's administrator."""

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


_ACCOUNT = "system:serviceaccount:"


def service_account(user: str) -> tuple[str, str] | None:
    """Namespace and name of the service account that has this user name; None where it is somebody else's."""
    parts = user.removeprefix(_ACCOUNT).split(":")
    return (parts[0], parts[1]) if user.startswith(_ACCOUNT) and len(parts) == 2 and all(parts) else None


def service_account_groups(namespace: str) -> tuple[str, ...]:
    """The groups of every service account in the namespace."""
    return "system:serviceaccounts", f"system:serviceaccounts:{namespace}"


ANONYMOUS = UserInfo("system:anonymous", ("system:unauthenticated",))
ADMINISTRATOR = UserInfo("system:admin", ("system:masters", "system:authenticated"))
