"""The interface of authorizers (apiserver's `authorizer.Authorizer` and `RuleResolver`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dra_shared.cel.authorization import Decision
from dra_shared.jsontypes import JsonObject

from dra_apiserver.authorization.attributes import Attributes
from dra_apiserver.user import UserInfo

PRIVILEGED = "system:masters"
"""The group whose members may do everything, independent of stored roles."""


class Authorizer(Protocol):
    """Decides which actions users may do."""

    def authorize(self, wanted: Attributes) -> Decision:
        """Decide whether the user may do the action. Return the decision and its reason."""

    def rules_of(self, user: UserInfo, namespace: str) -> tuple[list[JsonObject], list[JsonObject]]:
        """Return the user's rules in the namespace and cluster-wide, and the missing roles bound to the user."""

    def explain_unlisted(self, user: UserInfo) -> str:
        """Return why the user may do more than its rules say; "" if they are complete."""

    def role_rules(self, reference: JsonObject, namespace: str) -> Sequence[JsonObject] | None:
        """Return the rules of the role that a binding in the namespace ("" for the cluster) refers to; None if
        it is missing.
        """
