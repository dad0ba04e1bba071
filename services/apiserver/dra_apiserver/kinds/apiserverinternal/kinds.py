"""The kinds of internal.apiserver.k8s.io (upstream's `pkg/registry/apiserverinternal`).

No service acts on these kinds. They stay:

* storageversions.internal.apiserver.k8s.io: alpha; replicas of kube-apiserver report encodings there.
"""

from __future__ import annotations

from dra_apiserver.common.builtin import STATUS_ALONE, builtin
from dra_apiserver.common.printing import printer
from dra_apiserver.kindkit.behaviour import Writes
from dra_apiserver.kinds.apiserverinternal import columns

KINDS = (
    builtin(
        "internal.apiserver.k8s.io",
        "storageversions",
        printer=printer("Name|CommonEncodingVersion|StorageVersions|Age", columns.storage_version),
        writes=Writes(allow_unconditional_update=False, reset_fields={"status": STATUS_ALONE}),
    ),
)
