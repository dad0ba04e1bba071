"""The kinds of authorization.k8s.io (upstream's `pkg/registry/authorization`)."""

from __future__ import annotations

from collections.abc import Mapping

from dra_apiserver.api import Routes
from dra_apiserver.common.builtin import builtin
from dra_apiserver.kinds.authorization.access import review, review_own_rules
from dra_apiserver.storage import Resource

KINDS = (
    builtin(
        "authorization.k8s.io",
        "localsubjectaccessreviews",
    ),
    builtin(
        "authorization.k8s.io",
        "selfsubjectaccessreviews",
    ),
    builtin(
        "authorization.k8s.io",
        "selfsubjectrulesreviews",
    ),
    builtin(
        "authorization.k8s.io",
        "subjectaccessreviews",
    ),
)

ROUTES: Mapping[Resource, Routes] = {
    ("authorization.k8s.io", "localsubjectaccessreviews"): Routes(collection={"POST": ("create", review)}),
    ("authorization.k8s.io", "selfsubjectaccessreviews"): Routes(collection={"POST": ("create", review)}),
    ("authorization.k8s.io", "selfsubjectrulesreviews"): Routes(
        collection={"POST": ("create", review_own_rules)}
    ),
    ("authorization.k8s.io", "subjectaccessreviews"): Routes(collection={"POST": ("create", review)}),
}
