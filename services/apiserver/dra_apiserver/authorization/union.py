"""Several authorizers, one of which must allow a request (apiserver's pkg/authorization/union)."""

from __future__ import annotations

from collections.abc import Sequence

from dra_shared.cel.authorization import Decision
from dra_shared.jsontypes import JsonObject

from dra_apiserver.authorization.attributes import Attributes
from dra_apiserver.authorization.authorizer import PRIVILEGED, Authorizer
from dra_apiserver.user import UserInfo


class Union:
    """Calls authorizers in order. As upstream, members of system:masters are always allowed."""

    def __init__(self, authorizers: Sequence[Authorizer]) -> None:
        self._authorizers = authorizers

    def authorize(self, wanted: Attributes) -> Decision:
        """Return the decision of the first authorizer that allows the action; else join all reasons."""
        if PRIVILEGED in wanted.user.groups:
            return Decision(True)
        reasons = []
        for authorizer in self._authorizers:
            decision = authorizer.authorize(wanted)
            if decision.allowed:
                return decision
            if decision.reason:
                reasons.append(decision.reason)
        return Decision(False, "\n".join(reasons))

    def rules_of(self, user: UserInfo, namespace: str) -> tuple[list[JsonObject], list[JsonObject]]:
        """Return the rules of all authorizers, and the missing roles."""
        rules: list[JsonObject] = []
        missing: list[JsonObject] = []
        for authorizer in self._authorizers:
            found, absent = authorizer.rules_of(user, namespace)
            rules += found
            missing += absent
        return rules, missing

    def explain_unlisted(self, user: UserInfo) -> str:
        """Return why the user may do more than its rules say, from the first authorizer with a reason."""
        return next(filter(None, (one.explain_unlisted(user) for one in self._authorizers)), "")

    def role_rules(self, reference: JsonObject, namespace: str) -> Sequence[JsonObject] | None:
        """Return the rules of a role, from the authorizer that knows roles (RBAC)."""
        found = (authorizer.role_rules(reference, namespace) for authorizer in self._authorizers)
        return next((rules for rules in found if rules is not None), None)
