"""The kinds of resource.k8s.io (upstream's `pkg/registry/resource`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common import objectcells
from dra_apiserver.common.builtin import STATUS_ALONE, builtin
from dra_apiserver.common.fieldlabels import unsupported_version_label
from dra_apiserver.common.printing import printer
from dra_apiserver.kindkit.behaviour import Admission, Deletion, Rewind, Validation, Writes
from dra_apiserver.kinds.kubelets.restriction import NODE_RESTRICTION
from dra_apiserver.kinds.resource import columns, conversion, defaults, deviceclass, nodefeatures
from dra_apiserver.kinds.resource.strategy import (
    DeviceClassStrategy,
    DeviceTaintRuleStrategy,
    ResourceClaimStatusStrategy,
    ResourceClaimStrategy,
    ResourceClaimTemplateStrategy,
    ResourcePoolStatusRequestStrategy,
    ResourceSliceStrategy,
)


def _allocated_otherwise(now: JsonObject, then: JsonObject) -> bool:
    """True if the allocated devices differ. The claim is then created again, because an allocation must not change."""
    one, other = ((obj.get("status") or {}).get("allocation") for obj in (now, then))
    return one is not None and other is not None and one != other


KINDS = (
    builtin(
        "resource.k8s.io",
        "deviceclasses",
        strategy=DeviceClassStrategy(),
        printer=printer("Name|Age", objectcells.name_and_age),
        validation=Validation(name_rule=deviceclass.device_class_name, has_expressions=True),
        writes=Writes(counts_generation=True),
        deletion=Deletion(return_deleted_object=True),
    ),
    builtin(
        "resource.k8s.io",
        "devicetaintrules",
        strategy=DeviceTaintRuleStrategy(),
        status_strategy=DeviceTaintRuleStrategy(),
        default=defaults.device_taint_rule,
        writes=Writes(
            conditional_versions=frozenset({"v1"}),
            counts_generation=True,
            reset_fields={"status": STATUS_ALONE},
        ),
        printer=printer("Name|Key|Value|Effect|TimeAdded|Age", columns.taint_rule),
        deletion=Deletion(return_deleted_object=True),
    ),
    builtin(
        "resource.k8s.io",
        "resourceclaims",
        strategy=ResourceClaimStrategy(),
        status_strategy=ResourceClaimStatusStrategy(),
        default=defaults.resource_claim,
        conversions={"v1beta1": (conversion.claim_from_beta, conversion.claim_to_beta)},
        printer=printer("Name|State|Age", columns.device_claim),
        deletion=Deletion(return_deleted_object=True),
        writes=Writes(reset_fields={"status": STATUS_ALONE}),
        validation=Validation(has_expressions=True),
        rewind=Rewind(ended=_allocated_otherwise),
    ),
    builtin(
        "resource.k8s.io",
        "resourceclaimtemplates",
        strategy=ResourceClaimTemplateStrategy(),
        default=defaults.resource_claim_template,
        conversions={"v1beta1": (conversion.template_from_beta, conversion.template_to_beta)},
        printer=printer("Name|Age", objectcells.name_and_age),
        deletion=Deletion(return_deleted_object=True),
        validation=Validation(has_expressions=True),
    ),
    builtin(
        "resource.k8s.io",
        "resourcepoolstatusrequests",
        strategy=ResourcePoolStatusRequestStrategy(),
        status_strategy=ResourcePoolStatusRequestStrategy(),
        printer=printer(
            "Name|Driver|Total|Available|Allocated|Unavailable|Errors|Pools#|Status|Completed",
            columns.pool_status,
        ),
        writes=Writes(allow_unconditional_update=False, reset_fields={"status": STATUS_ALONE}),
        deletion=Deletion(return_deleted_object=True),
    ),
    builtin(
        "resource.k8s.io",
        "resourceslices",
        indexed_field="spec.nodeName",
        strategy=ResourceSliceStrategy(),
        default=defaults.resource_slice,
        conversions={"v1beta1": (conversion.slice_from_beta, conversion.slice_to_beta)},
        printer=printer("Name|Node|Driver|Pool|Age", columns.device_slice),
        admission=Admission(
            mutating=(NODE_RESTRICTION,),
            validating=(("NodeDeclaredFeatureValidator", nodefeatures.check_slice),),
        ),
        writes=Writes(counts_generation=True),
        deletion=Deletion(return_deleted_object=True),
        field_label_error=unsupported_version_label,
    ),
)
