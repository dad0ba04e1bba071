"""The kinds of internal.apiserver.k8s.io (upstream's `pkg/registry/apiserverinternal`).

No service acts on these kinds. They are served because clients use them:

* storageversions.internal.apiserver.k8s.io: alpha; replicas of kube-apiserver report encodings there.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.builtin import STATUS_ALONE, builtin
from dra_apiserver.common.cells import UNSET
from dra_apiserver.common.objectcells import age, name, part
from dra_apiserver.common.printing import printer
from dra_apiserver.kindkit.behaviour import Writes


def _storage_version_cells(obj: JsonObject, now: datetime) -> list[Any]:
    status = part(obj, "status")
    common = status.get("commonEncodingVersion") or UNSET
    every = ",".join(
        f"{one.get('apiServerID', '')}={one.get('encodingVersion', '')}"
        for one in status.get("storageVersions") or ()
    )
    return [name(obj), common, every or UNSET, age(obj, now)]


KINDS = (
    builtin(
        "internal.apiserver.k8s.io",
        "storageversions",
        printer=printer("Name|CommonEncodingVersion|StorageVersions|Age", _storage_version_cells),
        writes=Writes(allow_unconditional_update=False, reset_fields={"status": STATUS_ALONE}),
    ),
)
