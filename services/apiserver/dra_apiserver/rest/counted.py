"""What a write depends on besides its own object, where several API servers share a database.

Upstream's kube-apiservers share it as objects: a quota's status, which the ResourceQuota plugin updates before it
admits (`plugin/pkg/admission/resourcequota/controller.go`), and the registries of addresses and ports
(`pkg/registry/core/service/allocator`). Here the transaction that stores an object looks whether another server has
added to what was counted, or taken a namespace away, and the write is decided again where it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dra_apiserver.common.quota import counted_together, may_use_more, quotas_of
from dra_apiserver.rest.write import Write
from dra_apiserver.storage import ADDED, DELETED, MODIFIED, Counted, Resource
from dra_apiserver.target import Target

JsonObject = dict[str, Any]
_NAMESPACES: Resource = ("", "namespaces")


def counted(
    write: Write, target: Target, operation: str, obj: JsonObject, old: JsonObject | None = None
) -> Sequence[Counted]:
    """Return the objects that the write's outcome depends on. Only called if other servers write, too."""
    found = []
    if target.namespace and operation == "CREATE":
        # A namespace that is being deleted takes no new objects: nothing would delete them.
        found.append(Counted(_NAMESPACES, target.namespace, (MODIFIED, DELETED)))
    if target.kind.writes.exclusive and not target.subresource:
        found.append(Counted(target.resource, "", (ADDED, MODIFIED)))
    if target.namespace and may_use_more(obj, old, write.ctx, operation) and quotas_of(write.ctx):
        types = (ADDED,) if operation == "CREATE" else (ADDED, MODIFIED)
        prefix = f"{target.namespace}/"
        found += [Counted(resource, prefix, types) for resource in counted_together(target.resource)]
    return found
