"""The kinds of storage.k8s.io, volumes and their claims (upstream's `pkg/registry/storage`).

No service acts on these kinds. They are served because clients use them:

* volumeattributesclasses.storage.k8s.io: volume claims name them; the CSI resizer acts on them.
"""

from __future__ import annotations

from dra_apiserver.common.builtin import STATUS_ALONE, builtin
from dra_apiserver.common.checked import CheckedStrategy, StatusStrategy
from dra_apiserver.common.printing import printer
from dra_apiserver.kindkit.behaviour import Admission, Deletion, Writes
from dra_apiserver.kinds.kubelets.restriction import NODE_RESTRICTION
from dra_apiserver.kinds.pods import limits
from dra_apiserver.kinds.storage import admission, claimstatus, columns, csi, defaults, volumes, warnings
from dra_apiserver.kinds.storage.strategy import ClaimStrategy, DriverStrategy, VolumeStrategy

KINDS = (
    builtin(
        "",
        "persistentvolumeclaims",
        strategy=ClaimStrategy(),
        status_strategy=StatusStrategy(claimstatus.check_claim_status, gated=claimstatus.GATED),
        default=defaults.volume_claim,
        printer=printer(
            "Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|VolumeMode*",
            columns.claim,
        ),
        warnings={"": warnings.claim},
        admission=Admission(
            mutating=(NODE_RESTRICTION, ("DefaultStorageClass", admission.default_storage_class)),
            validating=(("LimitRanger", limits.limit_ranges),),
        ),
        deletion=Deletion(return_deleted_object=True),
    ),
    builtin(
        "",
        "persistentvolumes",
        strategy=VolumeStrategy(),
        status_strategy=VolumeStrategy(),
        default=defaults.persistent_volume,
        printer=printer(
            "Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|"
            "Reason|Age|VolumeMode*",
            columns.volume,
        ),
        warnings={"": warnings.volume},
        deletion=Deletion(return_deleted_object=True),
    ),
    builtin(
        "storage.k8s.io",
        "csidrivers",
        strategy=DriverStrategy(),
        default=defaults.csi_driver,
        printer=printer(
            "Name|AttachRequired?|PodInfoOnMount?|StorageCapacity?|TokenRequests|RequiresRepublish?|Modes|Age",
            columns.csi_driver,
        ),
        warnings={"": warnings.csi_driver},
        writes=Writes(allow_unconditional_update=False),
        deletion=Deletion(return_deleted_object=True),
    ),
    builtin(
        "storage.k8s.io",
        "csinodes",
        strategy=CheckedStrategy(csi.check_csi_node),
        status_strategy=StatusStrategy(
            csi.check_csi_node_status, keeps_metadata=True, gated=csi.STATUS_GATED
        ),
        printer=printer("Name|Drivers#|Age", columns.csi_node),
        admission=Admission(mutating=(NODE_RESTRICTION,)),
        writes=Writes(allow_unconditional_update=False, reset_fields={"status": STATUS_ALONE}),
        deletion=Deletion(return_deleted_object=True),
    ),
    builtin(
        "storage.k8s.io",
        "csistoragecapacities",
        strategy=CheckedStrategy(csi.check_storage_capacity),
        printer=printer("Name|StorageClassName|Capacity", columns.storage_capacity),
        warnings={"": warnings.storage_capacity},
        writes=Writes(allow_unconditional_update=False),
        deletion=Deletion(return_deleted_object=True),
    ),
    builtin(
        "storage.k8s.io",
        "storageclasses",
        strategy=CheckedStrategy(volumes.check_storage_class),
        default=defaults.storage_class,
        printer=printer(
            "Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age", columns.storage_class
        ),
        warnings={"": warnings.storage_class},
        deletion=Deletion(return_deleted_object=True),
    ),
    builtin(
        "storage.k8s.io",
        "volumeattachments",
        strategy=CheckedStrategy(volumes.check_attachment),
        status_strategy=StatusStrategy(lambda obj, old: [], keeps_metadata=True),
        printer=printer("Name|Attacher|PV|Node|Attached?|Age", columns.attachment),
        writes=Writes(allow_unconditional_update=False, reset_fields={"status": STATUS_ALONE}),
        deletion=Deletion(return_deleted_object=True),
    ),
    builtin(
        "storage.k8s.io",
        "volumeattributesclasses",
        strategy=CheckedStrategy(csi.check_volume_attributes_class),
        printer=printer("Name|DriverName|Age", columns.attributes_class),
    ),
)
