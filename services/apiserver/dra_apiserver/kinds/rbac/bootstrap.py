"""The default roles and bindings, from ``policy.txt``.

A line that is not indented begins an object, the indented ones below it are its rules or subjects::

    ClusterRole NAME [into OTHER] [gathers NAME]     into: it is part of the aggregated role OTHER
      VERBS on RESOURCES of GROUPS [named NAMES]
      VERBS on PATHS
    Role NAMESPACE/NAME
    ClusterRoleBinding NAME gives ROLE-KIND ROLE     and RoleBinding NAMESPACE/NAME likewise
      SUBJECT-KIND NAME

Lists have commas between their items; the core group is written ``core``. A line, and what is below it, may depend on
the server: ``when GATE``, ``since VERSION`` and ``before VERSION`` at its end.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib.resources import files

import orjson
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import Version

_GROUP = "rbac.authorization.k8s.io"
_AGGREGATE = f"{_GROUP}/aggregate-to-"
_CONDITIONS: dict[str, Callable[[FeatureGates, str], bool]] = {
    "when": FeatureGates.enabled,
    "since": lambda features, text: features.version >= Version.parse(text),
    "before": lambda features, text: features.version < Version.parse(text),
}


def roles_and_bindings(features: FeatureGates) -> list[JsonObject]:
    """Return the default objects of a server with these gates, without the fields that the server sets."""
    found: list[JsonObject] = orjson.loads(_encode(features))
    return found


@lru_cache(maxsize=8)
def _encode(features: FeatureGates) -> bytes:
    """Return the objects as JSON. A process may start many servers, and each changes the objects that it gets."""
    return orjson.dumps(list(_parse(features)))


def _parse(features: FeatureGates) -> Iterator[JsonObject]:
    """Yield the objects of the policy whose conditions hold."""
    made: JsonObject | None = None
    for line in (files(__package__) / "policy.txt").read_text().splitlines():
        words, holds = _without_conditions(line.split(), features)
        if not line.startswith(" "):
            if made is not None:
                yield made
            made = _begin(words) if holds else None
        elif made is not None and holds:
            _add(made, words)
    if made is not None:
        yield made


def default_rules(role: str, features: FeatureGates) -> list[JsonObject]:
    """Return the rules of a default cluster role."""
    found = (one for one in roles_and_bindings(features) if one["kind"] == "ClusterRole")
    return next(one["rules"] for one in found if one["metadata"]["name"] == role)


def controller_role(name: str, rules: list[JsonObject]) -> Iterator[JsonObject]:
    """Yield the role of a controller with its own account, and the binding of both."""
    meta = {
        "name": f"system:controller:{name}",
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    }
    yield {"kind": "ClusterRole", "apiVersion": f"{_GROUP}/v1", "metadata": meta, "rules": rules}
    yield {
        "kind": "ClusterRoleBinding",
        "apiVersion": f"{_GROUP}/v1",
        "metadata": meta,
        "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": meta["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}],
    }


def _without_conditions(words: list[str], features: FeatureGates) -> tuple[list[str], bool]:
    """Return the words before the conditions, and whether all conditions hold."""
    holds = True
    while words[-2] in _CONDITIONS:
        *words, condition, value = words
        holds = holds and _CONDITIONS[condition](features, value)
    return words, holds


def _begin(words: list[str]) -> JsonObject:
    kind, place, *rest = words
    # Names contain colons, but no slashes.
    namespace, slash, name = place.rpartition("/")
    clauses = dict(zip(rest[::2], rest[1::2], strict=False))
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    if "into" in clauses:
        labels[_AGGREGATE + clauses["into"]] = "true"
    meta: JsonObject = {"name": name}
    if slash:
        meta["namespace"] = namespace
    meta |= {"labels": labels, "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"}}
    made: JsonObject = {"kind": kind, "apiVersion": f"{_GROUP}/v1", "metadata": meta}
    if kind.endswith("Binding"):
        made["roleRef"] = {"apiGroup": _GROUP, "kind": clauses["gives"], "name": rest[-1]}
        return made
    made["rules"] = None
    if "gathers" in clauses:
        selector = {"matchLabels": {_AGGREGATE + clauses["gathers"]: "true"}}
        made["aggregationRule"] = {"clusterRoleSelectors": [selector]}
    return made


def _add(made: JsonObject, words: list[str]) -> None:
    if made["kind"].endswith("Binding"):
        kind, name = words
        subject: JsonObject = {"kind": kind, "apiGroup": _GROUP, "name": name}
        if kind == "ServiceAccount":
            namespace, _, name = name.partition("/")
            subject = {"kind": kind, "name": name, "namespace": namespace}
        made["subjects"] = [*made.get("subjects", ()), subject]
        return
    verbs, _, things, *rest = words
    rule: JsonObject = {"verbs": verbs.split(",")}
    clauses = dict(zip(rest[::2], rest[1::2], strict=False))
    if "of" in clauses:
        rule["apiGroups"] = ["" if group == "core" else group for group in clauses["of"].split(",")]
        rule["resources"] = things.split(",")
        if "named" in clauses:
            rule["resourceNames"] = clauses["named"].split(",")
    else:
        rule["nonResourceURLs"] = things.split(",")
    made["rules"] = [*(made["rules"] or ()), rule]
