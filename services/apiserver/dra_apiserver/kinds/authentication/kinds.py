"""The kinds of authentication.k8s.io (upstream's `pkg/registry/authentication`)."""

from __future__ import annotations

from dra_apiserver.common.builtin import builtin
from dra_apiserver.kinds.authentication.reviews import review_self, review_token

KINDS = (
    builtin(
        "authentication.k8s.io",
        "selfsubjectreviews",
        collection_routes={"POST": ("create", review_self)},
    ),
    builtin(
        "authentication.k8s.io",
        "tokenreviews",
        collection_routes={"POST": ("create", review_token)},
    ),
)
