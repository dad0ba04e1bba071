"""Dependencies of a write on other objects, if several API servers share a database.

Upstream's kube-apiservers store such dependencies in objects: a quota's status, which the ResourceQuota plugin
updates before it admits (`plugin/pkg/admission/resourcequota/controller.go`), and the registries of addresses
and ports (`pkg/registry/core/service/allocator`). Here, the transaction that stores an object checks whether
another server has added counted objects or deleted the namespace. If so, the write is computed again.
"""

from __future__ import annotations

from collections.abc import Sequence

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.quota import counted_together, may_use_more, quotas_of
from dra_apiserver.rest.write import Write
from dra_apiserver.storage import ADDED, DELETED, MODIFIED, Counted, Resource
from dra_apiserver.target import Target

_NAMESPACES: Resource = ("", "namespaces")


def find_counted(
    write: Write, target: Target, operation: str, obj: JsonObject, old: JsonObject | None = None
) -> Sequence[Counted]:
    """Return the objects on which the outcome of the write depends. Only called if other servers write too."""
    found = []
    if target.namespace and operation == "CREATE":
        # A namespace that is being deleted accepts no new objects, because nothing would delete them.
        found.append(Counted(_NAMESPACES, target.namespace, (MODIFIED, DELETED)))
    if target.kind.writes.exclusive and not target.subresource:
        found.append(Counted(target.resource, "", (ADDED, MODIFIED)))
    if target.namespace and may_use_more(obj, old, write.ctx, operation) and quotas_of(write.ctx):
        types = (ADDED,) if operation == "CREATE" else (ADDED, MODIFIED)
        prefix = f"{target.namespace}/"
        found += [Counted(resource, prefix, types) for resource in counted_together(target.resource)]
    return found
