"""Pods and pod templates (upstream's `pkg/registry/core/pod`).

No service acts on these kinds. They are served because clients use them:

* podtemplates: kube-apiserver has them in v1's discovery. No controller of upstream acts on them either.
"""

from __future__ import annotations

from collections.abc import Mapping

from dra_shared.jsontypes import JsonObject

from dra_apiserver.api import Routes
from dra_apiserver.common.builtin import builtin
from dra_apiserver.common.checked import CheckedStrategy
from dra_apiserver.common.fieldlabels import unsupported_field_label
from dra_apiserver.common.printing import printer
from dra_apiserver.errors import FieldError
from dra_apiserver.kindkit.behaviour import Admission, Deletion, Rewind, Writes
from dra_apiserver.kinds.connect import logs, proxy, streaming
from dra_apiserver.kinds.kubelets.restriction import NODE_RESTRICTION
from dra_apiserver.kinds.pods import (
    admission,
    binding,
    columns,
    defaults,
    deletion,
    eviction,
    gates,
    limits,
    podcells,
    priority,
    rewind,
    runtimeclass,
    warnings,
)
from dra_apiserver.kinds.pods.spec import check_template
from dra_apiserver.kinds.pods.strategy import (
    PodEphemeralContainersStrategy,
    PodResizeStrategy,
    PodStatusStrategy,
    PodStrategy,
)
from dra_apiserver.storage import Resource


def _check_pod_template(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate a PodTemplate object."""
    return check_template(obj.get("template") or {}, "template")


KINDS = (
    builtin(
        "",
        "pods",
        indexed_field="spec.nodeName",
        deletion=Deletion(check_graceful_delete=deletion.grace_period, return_deleted_object=True),
        strategy=PodStrategy(),
        status_strategy=PodStatusStrategy(),
        subresource_strategies={
            "ephemeralcontainers": PodEphemeralContainersStrategy(),
            "resize": PodResizeStrategy(),
        },
        default=defaults.pod,
        printer=printer(
            "Name|Ready|Status|Restarts|Age|IP*|Node*|Nominated Node*|Readiness Gates*",
            podcells.pod_cells,
            row_conditions=podcells.row_conditions,
        ),
        warnings={"": warnings.pod, "status": warnings.pod_status},
        admission=Admission(
            mutating=(
                ("LimitRanger", limits.limit_defaults),
                ("ServiceAccount", admission.service_account),
                NODE_RESTRICTION,
                ("Priority", priority.priority),
                ("DefaultTolerationSeconds", admission.default_tolerations),
                ("RuntimeClass", runtimeclass.runtime_class),
                ("PodTopologyLabels", admission.topology),
            ),
            validating=(("LimitRanger", limits.limit_ranges),),
        ),
        writes=Writes(
            counts_generation=True,
            reset_fields={
                "status": [
                    ("f:spec",),
                    ("f:metadata", "f:deletionTimestamp"),
                    ("f:metadata", "f:ownerReferences"),
                ]
            },
        ),
        field_label_error=unsupported_field_label,
        rewind=Rewind(ended=rewind.has_ended, begin=rewind.begin),
    ),
    builtin(
        "",
        "podtemplates",
        strategy=CheckedStrategy(_check_pod_template, gates.template("template")),
        default=defaults.standalone_template,
        printer=printer("Name|Containers|Images|Pod Labels", columns.pod_template),
        warnings={"": warnings.pod_template},
        writes=Writes(counts_generation=True),
        deletion=Deletion(return_deleted_object=True),
    ),
)

ROUTES: Mapping[Resource, Routes] = {
    ("", "pods"): Routes(
        subresources={
            "attach": streaming.ROUTES,
            "binding": {"POST": ("create", binding.bind)},
            "eviction": {"POST": ("create", eviction.evict)},
            "exec": streaming.ROUTES,
            "log": {"GET": ("get", logs.logs)},
            "portforward": streaming.ROUTES,
            "proxy": proxy.ROUTES,
        }
    ),
}
