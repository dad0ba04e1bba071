"""The RBAC authorizer: the rules of a user by the stored roles and bindings (pkg/registry/rbac/validation)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from dra_shared.cel.authorization import Decision
from dra_shared.jsontypes import JsonObject

from dra_apiserver.authorization.attributes import Attributes
from dra_apiserver.authorization.authorizer import PRIVILEGED
from dra_apiserver.authorization.rules import allows
from dra_apiserver.errors import GroupResource, quote
from dra_apiserver.storage import Store
from dra_apiserver.user import UserInfo, service_account

GROUP = "rbac.authorization.k8s.io"
_PLURALS = {"Role": "roles", "ClusterRole": "clusterroles"}


class _Binding(NamedTuple):
    obj: JsonObject
    namespace: str


class RBAC:
    """Decides by the stored roles and bindings."""

    def __init__(self, store: Store) -> None:
        self._roles = {plural: store.collection((GROUP, plural)) for plural in _PLURALS.values()}
        self._bindings = [
            store.collection((GROUP, plural)) for plural in ("clusterrolebindings", "rolebindings")
        ]
        self._read: tuple[int, ...] = ()
        self._by_namespace: dict[str, list[_Binding]] = {}
        self._rules: dict[tuple[str, str], Sequence[JsonObject]] = {}

    def authorize(self, wanted: Attributes) -> Decision:
        """Decide whether a rule of the user allows it. The reason names the binding, or the missing roles."""
        if PRIVILEGED in wanted.user.groups:
            return Decision(True)
        missing: list[JsonObject] = []
        for binding, subject, rules in self._grants(wanted.user, wanted.namespace, missing):
            if any(allows(rule, wanted) for rule in rules):
                return Decision(True, f"RBAC: allowed by {_describe(binding, subject)}")
        return Decision(False, f"RBAC: {problems(missing)}" if missing else "")

    def rules_of(self, user: UserInfo, namespace: str) -> tuple[list[JsonObject], list[JsonObject]]:
        """Return every rule that the user has in the namespace or in all, and the missing roles that are
        bound to it.
        """
        missing: list[JsonObject] = []
        rules = [rule for _, _, found in self._grants(user, namespace, missing) for rule in found]
        return rules, missing

    def explain_unlisted(self, user: UserInfo) -> str:
        """Return "", because the rules are complete."""
        return ""

    def role_rules(self, reference: JsonObject, namespace: str) -> Sequence[JsonObject] | None:
        """Return the rules of the role that a binding in the namespace ("" for the cluster) refers to; None if
        it is missing.
        """
        self._refresh()
        kind, name = reference.get("kind") or "", reference.get("name") or ""
        plural = _PLURALS[kind]
        key = f"{namespace}/{name}" if kind == "Role" else name
        rules = self._rules.get((plural, key))
        if rules is None:
            record = self._roles[plural].records.get(key)
            if record is None:
                return None
            rules = self._rules[plural, key] = record.object().get("rules") or ()
        return rules

    def _grants(
        self, user: UserInfo, namespace: str, missing: list[JsonObject]
    ) -> Iterator[tuple[_Binding, JsonObject, Sequence[JsonObject]]]:
        self._refresh()
        for place in ("", namespace) if namespace else ("",):
            for binding in self._by_namespace.get(place, ()):
                subjects = binding.obj.get("subjects") or ()
                subject = next((one for one in subjects if _is(user, one, place)), None)
                if subject is None:
                    continue
                rules = self.role_rules(binding.obj["roleRef"], place)
                if rules is None:
                    missing.append(binding.obj["roleRef"])
                else:
                    yield binding, subject, rules

    def _refresh(self) -> None:
        collections = (*self._roles.values(), *self._bindings)
        revisions = tuple(collection.revision for collection in collections)
        if revisions == self._read:
            return
        found: dict[str, list[_Binding]] = {}
        for collection in self._bindings:
            for key in [*collection.range()]:
                record = collection.records.get(key)
                if record is not None:
                    obj = record.object()
                    namespace = obj["metadata"].get("namespace") or ""
                    found.setdefault(namespace, []).append(_Binding(obj, namespace))
        # Assign all at once, because other threads read them together.
        self._rules, self._by_namespace, self._read = {}, found, revisions


def _is(user: UserInfo, subject: JsonObject, namespace: str) -> bool:
    name = subject.get("name") or ""
    match subject.get("kind"):
        case "User":
            return user.name == name
        case "Group":
            return name in user.groups
        case "ServiceAccount":
            home = subject.get("namespace") or namespace
            return bool(home) and service_account(user.name) == (home, name)
    return False


def _describe(binding: _Binding, subject: JsonObject) -> str:
    name, reference = binding.obj["metadata"]["name"], binding.obj["roleRef"]
    kind, whole = "ClusterRoleBinding", name
    if binding.namespace:
        kind, whole = "RoleBinding", f"{name}/{binding.namespace}"
    who = subject.get("name") or ""
    if subject["kind"] == "ServiceAccount":
        who = f"{who}/{subject.get('namespace') or binding.namespace}"
    return (
        f"{kind} {quote(whole)} of {reference['kind']} {quote(reference['name'])} "
        f"to {subject['kind']} {quote(who)}"
    )


def problems(missing: Sequence[JsonObject], resource: GroupResource | None = None) -> str:
    """Return a message about missing roles.

    ``resource`` is the name in the message of kinds that upstream reads directly from storage.
    """
    return join_problems(not_found_messages(missing, resource))


def not_found_messages(missing: Sequence[JsonObject], resource: GroupResource | None = None) -> list[str]:
    """Return a message for each missing role."""
    return [
        f"{resource or GroupResource(GROUP, one['kind'].lower())} {quote(one['name'])} not found"
        for one in missing
    ]


def join_problems(texts: Iterable[str]) -> str:
    """Join several problems in one text, each once (apimachinery's `util/errors`)."""
    known = list(dict.fromkeys(texts))
    return known[0] if len(known) == 1 else f"[{', '.join(known)}]" if known else ""
