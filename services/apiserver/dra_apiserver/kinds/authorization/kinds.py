"""The kinds of authorization.k8s.io (upstream's `pkg/registry/authorization`)."""

from __future__ import annotations

from dra_apiserver.common.builtin import builtin
from dra_apiserver.kinds.authorization.access import review, review_own_rules

KINDS = (
    builtin(
        "authorization.k8s.io",
        "localsubjectaccessreviews",
        collection_routes={"POST": ("create", review)},
    ),
    builtin(
        "authorization.k8s.io",
        "selfsubjectaccessreviews",
        collection_routes={"POST": ("create", review)},
    ),
    builtin(
        "authorization.k8s.io",
        "selfsubjectrulesreviews",
        collection_routes={"POST": ("create", review_own_rules)},
    ),
    builtin(
        "authorization.k8s.io",
        "subjectaccessreviews",
        collection_routes={"POST": ("create", review)},
    ),
)
