"""What decides who may do what (apiserver's `authorizer.Authorizer` and `RuleResolver`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from dra_shared.cel.authorization import Decision

from dra_apiserver.authorization.attributes import Attributes
from dra_apiserver.authorization.rules import Rule
from dra_apiserver.user import UserInfo

JsonObject = dict[str, Any]

PRIVILEGED = "system:masters"
"""The group whose members may do everything, whatever is stored."""


class Authorizer(Protocol):
    """Decides by what is stored now."""

    def authorize(self, wanted: Attributes) -> Decision:
        """Whether the user may do it, and why."""

    def rules_of(self, user: UserInfo, namespace: str) -> tuple[list[Rule], list[JsonObject]]:
        """Every rule that the user has in the namespace and in all, and the roles bound to it that there aren't."""

    def unlisted(self, user: UserInfo) -> str:
        """Why the user may do more than its rules say; "" where they say all."""

    def role_rules(self, reference: JsonObject, namespace: str) -> Sequence[Rule] | None:
        """The rules of the role that a binding in the namespace ("": of the cluster) refers to; None without it."""
