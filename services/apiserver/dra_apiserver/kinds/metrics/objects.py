"""The objects that metrics-server installs with its API: a role for reading metrics."""

from __future__ import annotations

from collections.abc import Iterator

from dra_shared.jsontypes import JsonObject

from dra_apiserver.kinds.metrics.kinds import GROUP

_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"


def objects() -> Iterator[JsonObject]:
    """Yield the role that is aggregated into view, edit and admin."""
    yield {
        "kind": "ClusterRole",
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {
            "name": "system:aggregated-metrics-reader",
            "labels": {"k8s-app": "metrics-server"}
            | {f"{_AGGREGATE}{role}": "true" for role in ("view", "edit", "admin")},
        },
        "rules": [{"verbs": ["get", "list", "watch"], "apiGroups": [GROUP], "resources": ["pods", "nodes"]}],
    }
