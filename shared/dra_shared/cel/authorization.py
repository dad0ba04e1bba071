"""Values that CEL's authorizer uses to check access (apiserver/pkg/cel/library/authz.go)."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Decision:
    """The authorizer's answer."""

    allowed: bool
    reason: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """The access that is checked: a verb on a path, or on a resource."""

    user: str
    verb: str
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


Authorize = Callable[[Question], Decision]


@dataclass(frozen=True, slots=True)
class Authorizer:
    """An authorizer for one user."""

    user: str
    authorize: Authorize


@dataclass(frozen=True, slots=True)
class PathCheck:
    authorizer: Authorizer
    path: str


@dataclass(frozen=True, slots=True)
class GroupCheck:
    authorizer: Authorizer
    group: str


@dataclass(frozen=True, slots=True)
class ResourceCheck:
    group: GroupCheck
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
