"""The kinds of authentication.k8s.io (upstream's `pkg/registry/authentication`)."""

from __future__ import annotations

from collections.abc import Mapping

from dra_apiserver.api import Routes
from dra_apiserver.common.builtin import builtin
from dra_apiserver.kinds.authentication.reviews import review_self, review_token
from dra_apiserver.storage import Resource

KINDS = (
    builtin(
        "authentication.k8s.io",
        "selfsubjectreviews",
    ),
    builtin(
        "authentication.k8s.io",
        "tokenreviews",
    ),
)

ROUTES: Mapping[Resource, Routes] = {
    ("authentication.k8s.io", "selfsubjectreviews"): Routes(collection={"POST": ("create", review_self)}),
    ("authentication.k8s.io", "tokenreviews"): Routes(collection={"POST": ("create", review_token)}),
}
