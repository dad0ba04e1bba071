"""The kinds of storagemigration.k8s.io (upstream's `pkg/registry/storagemigration`).

No service acts on these kinds. They stay:

* storageversionmigrations.storagemigration.k8s.io: kube-controller-manager's migrator acts on them.
"""

from __future__ import annotations

from dra_apiserver.common.builtin import STATUS_ALONE, builtin
from dra_apiserver.common.printing import printer
from dra_apiserver.kindkit.behaviour import Writes
from dra_apiserver.kinds.storagemigration import columns

KINDS = (
    builtin(
        "storagemigration.k8s.io",
        "storageversionmigrations",
        printer=printer("Name|Resource", columns.storage_migration),
        writes=Writes(allow_unconditional_update=False, reset_fields={"status": STATUS_ALONE}),
        feature_gate="StorageVersionMigrator",
    ),
)
