"""What a write depends on besides its own object, where several API servers share a database.

Upstream's kube-apiservers share it as objects: a quota's status, which the ResourceQuota plugin updates before it
admits (`plugin/pkg/admission/resourcequota/controller.go`), and the registries of addresses and ports
(`pkg/registry/core/service/allocator`). Here the transaction that stores an object looks whether another server has
added to what was counted, or taken a namespace away, and the write is decided again where it has.
"""

from __future__ import annotations

from collections.abc import Sequence

from dra_apiserver.kinds.common.quota import quotas_for
from dra_apiserver.rest.write import Write
from dra_apiserver.storage import ADDED, DELETED, MODIFIED, Counted, Resource
from dra_apiserver.target import Target

_NAMESPACES: Resource = ("", "namespaces")


def counted(write: Write, target: Target, operation: str) -> Sequence[Counted]:
    """The objects that the write's outcome depends on. It is asked where other servers write, too."""
    found = []
    if target.namespace and operation == "CREATE":
        # One that is going takes no new objects: they would be left where it has gone.
        found.append(Counted(_NAMESPACES, target.namespace, (MODIFIED, DELETED)))
    if target.kind.exclusive and not target.subresource:
        found.append(Counted(target.resource, "", (ADDED, MODIFIED)))
    if target.namespace and quotas_for(write.ctx, operation):
        types = (ADDED,) if operation == "CREATE" else (ADDED, MODIFIED)
        found.append(Counted(target.resource, f"{target.namespace}/", types))
    return found
