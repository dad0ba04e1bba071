"""The kinds of storagemigration.k8s.io (upstream's `pkg/registry/storagemigration`).

No service acts on these kinds. They are served because clients use them:

* storageversionmigrations.storagemigration.k8s.io: kube-controller-manager's migrator acts on them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_35

from dra_apiserver.common.builtin import STATUS_ALONE, builtin
from dra_apiserver.common.objectcells import name, part
from dra_apiserver.common.printing import printer
from dra_apiserver.kindkit.behaviour import Writes


def _storage_migration_cells(obj: JsonObject, now: datetime) -> list[Any]:
    resource = part(part(obj, "spec"), "resource")
    texts = [resource.get("resource", ""), resource.get("version", ""), resource.get("group", "")]
    return [name(obj), ".".join(text for text in texts if text)]


def _storage_migration_cells_with_status(obj: JsonObject, now: datetime) -> list[Any]:
    conditions = part(obj, "status").get("conditions") or ()
    met = [one.get("type") for one in conditions if one.get("status") == "True"]
    states = [kind for kind in met if kind in ("Running", "Failed", "Succeeded")] or ["Unknown"]
    return [*_storage_migration_cells(obj, now), states[-1]]


KINDS = (
    builtin(
        "storagemigration.k8s.io",
        "storageversionmigrations",
        printer=printer("Name|Resource|Status", _storage_migration_cells_with_status),
        older_printers={V1_35: printer("Name|Resource", _storage_migration_cells)},
        writes=Writes(allow_unconditional_update=False, reset_fields={"status": STATUS_ALONE}),
        feature_gate="StorageVersionMigrator",
    ),
)
