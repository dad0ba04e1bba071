"""The NamespaceLifecycle admission plugin (apiserver's `pkg/admission/plugin/namespace/lifecycle`)."""

from __future__ import annotations

from dra_apiserver.api import Api
from dra_apiserver.errors import GroupResource, forbidden_error, not_found
from dra_apiserver.target import Target

_NAMESPACES = ("", "namespaces")


def check_namespace(api: Api, target: Target) -> None:
    """Reject creates in a namespace that does not exist or is being deleted.

    Raises:
        StatusError: 404, the namespace does not exist; 403, it is being deleted.
    """
    if not target.namespace:
        return
    record = api.store.newest(_NAMESPACES, target.namespace)
    if record is None:
        raise not_found(GroupResource(*_NAMESPACES), target.namespace)
    if b'"deletionTimestamp"' in record.data and record.object()["metadata"].get("deletionTimestamp"):
        text = f"unable to create new content in namespace {target.namespace} because it is being terminated"
        causes = [
            {
                "reason": "NamespaceTerminating",
                "message": f"namespace {target.namespace} is being terminated",
                "field": "metadata.namespace",
            }
        ]
        raise forbidden_error(target.qualified_resource, target.name, text, causes)
