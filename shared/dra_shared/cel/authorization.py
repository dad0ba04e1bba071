"""The values that ask whether somebody may do something (apiserver/pkg/cel/library/authz.go)."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer."""

    allowed: bool
    reason: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: a verb on a path, or on a resource."""

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
    """Answers for one user."""

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
