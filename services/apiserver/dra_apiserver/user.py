"""The user of a request. A caller without credentials is the cluster's administrator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class UserInfo:
    """A user, for strategies, admission and reviews."""

    name: str
    uid: str = field(default="", kw_only=True)
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


_ACCOUNT = "system:serviceaccount:"


def service_account(user: str) -> tuple[str, str] | None:
    """Return namespace and name of the service account with this user name; None if it is not a service account."""
    parts = user.removeprefix(_ACCOUNT).split(":")
    return (parts[0], parts[1]) if user.startswith(_ACCOUNT) and len(parts) == 2 and all(parts) else None


def service_account_groups(namespace: str) -> tuple[str, ...]:
    """Return the groups of every service account in the namespace."""
    return "system:serviceaccounts", f"system:serviceaccounts:{namespace}"


ANONYMOUS = UserInfo("system:anonymous", ("system:unauthenticated",))
ADMINISTRATOR = UserInfo("system:admin", ("system:masters", "system:authenticated"))
