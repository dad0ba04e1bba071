"""The kinds of the core group without a separate package, and events.k8s.io (upstream's `pkg/registry/core`).

No service acts on these kinds. They are served because clients use them:

* events: every component writes them, and `kubectl get events` and `kubectl describe` show them.
* events.events.k8s.io: the same objects, as client-go's newer recorder writes them.
"""

from __future__ import annotations

from collections.abc import Mapping

from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_label_name
from dra_shared.version import V1_35

from dra_apiserver.api import Routes
from dra_apiserver.common import objectcells
from dra_apiserver.common.builtin import builtin
from dra_apiserver.common.checked import CheckedStrategy, StatusStrategy
from dra_apiserver.common.fieldlabels import unsupported_field_label
from dra_apiserver.common.printing import printer
from dra_apiserver.kindkit.behaviour import Admission, Deletion, Rewind, Validation, Writes
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.kinds.connect import proxy
from dra_apiserver.kinds.core import (
    columns,
    componentstatus,
    configmaps,
    defaults,
    events,
    limitrange,
    namespaces,
    nodes,
    resourcequota,
    tokenrequest,
    warnings,
)
from dra_apiserver.kinds.core.namespacestrategy import NamespaceStrategy
from dra_apiserver.kinds.kubelets.restriction import NODE_RESTRICTION
from dra_apiserver.kinds.pods import binding
from dra_apiserver.storage import Resource

_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def _add_not_ready_taint(
    obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str
) -> None:
    """Taint a new node until the node controller finds it ready (the TaintNodesByCondition plugin)."""
    if operation != "CREATE" or obj is None or ctx.subresource:
        return
    spec = obj.setdefault("spec", {})
    taints = spec.get("taints") or []
    if not any(_NOT_READY.items() <= taint.items() for taint in taints):
        spec["taints"] = [*taints, dict(_NOT_READY)]


KINDS = (
    builtin(
        "",
        "bindings",
    ),
    builtin(
        "",
        "componentstatuses",
        printer=printer("Name|Status|Message|Error", columns.component_status),
    ),
    builtin(
        "",
        "configmaps",
        strategy=CheckedStrategy(configmaps.check_config_map),
        printer=printer("Name|Data|Age", columns.config_map),
    ),
    builtin(
        "",
        "events",
        strategy=CheckedStrategy(events.check_event),
        printer=printer(
            "Last Seen|Type|Reason|Object|Subobject*|Source*|Message|First Seen*|Count*|Name*", columns.event
        ),
        writes=Writes(allow_create_on_update=True),
        field_label_error=unsupported_field_label,
    ),
    builtin(
        "",
        "limitranges",
        strategy=CheckedStrategy(limitrange.check_limit_range),
        default=defaults.limit_range,
        writes=Writes(allow_create_on_update=True),
    ),
    builtin(
        "",
        "namespaces",
        deletion=Deletion(
            terminate=namespaces.terminate,
            is_finalized=namespaces.is_finalized,
            undeletable=namespaces.UNDELETABLE,
        ),
        strategy=NamespaceStrategy(),
        status_strategy=NamespaceStrategy(),
        subresource_strategies={"finalize": NamespaceStrategy()},
        default=defaults.namespace,
        printer=printer("Name|Status|Age", columns.namespace),
        validation=Validation(name_rule=dns_label_name),
        field_label_error=unsupported_field_label,
        writes=Writes(reset_fields={"finalize": []}),
    ),
    builtin(
        "",
        "nodes",
        strategy=CheckedStrategy(nodes.check_node, nodes.GATED),
        status_strategy=StatusStrategy(nodes.check_node_status),
        default=defaults.node,
        printer=printer(
            "Name|Status|Roles|Age|Version|Internal-IP*|External-IP*|OS-Image*|Kernel-Version*|Container-Runtime*",
            columns.node,
        ),
        warnings={"": warnings.node},
        admission=Admission(mutating=(NODE_RESTRICTION, ("TaintNodesByCondition", _add_not_ready_taint))),
        writes=Writes(keeps_status_on_create=True),
        field_label_error=unsupported_field_label,
        rewind=Rewind(passing=nodes.without_heartbeats),
    ),
    builtin(
        "",
        "resourcequotas",
        strategy=CheckedStrategy(resourcequota.check_quota),
        status_strategy=StatusStrategy(resourcequota.check_quota_status),
        printer=printer("Name|Request|Limit|Age", columns.resource_quota),
        warnings={"": warnings.quota},
        deletion=Deletion(return_deleted_object=True),
    ),
    builtin(
        "",
        "secrets",
        strategy=CheckedStrategy(configmaps.check_secret),
        default=defaults.secret,
        printer=printer("Name|Type|Data|Age", columns.secret),
        warnings={"": warnings.secret},
        field_label_error=unsupported_field_label,
    ),
    builtin(
        "",
        "serviceaccounts",
        printer=printer("Name|Age", objectcells.name_and_age),
        older_printers={V1_35: printer("Name|Secrets|Age", columns.service_account)},
        warnings={"": warnings.service_account},
        deletion=Deletion(return_deleted_object=True),
    ),
    builtin(
        "events.k8s.io",
        "events",
        conversions={"v1": (events.to_core, events.from_core)},
        printer=printer(
            "Last Seen|Type|Reason|Object|Subobject*|Source*|Message|First Seen*|Count*|Name*",
            columns.grouped_event,
        ),
        writes=Writes(allow_create_on_update=True),
        field_label_error=unsupported_field_label,
    ),
)

ROUTES: Mapping[Resource, Routes] = {
    ("", "bindings"): Routes(collection={"POST": ("create", binding.bind)}),
    ("", "componentstatuses"): Routes(
        collection={"GET": ("list", componentstatus.list_components)},
        object={"GET": ("get", componentstatus.get_component)},
    ),
    ("", "nodes"): Routes(subresources={"proxy": proxy.ROUTES}),
    ("", "serviceaccounts"): Routes(subresources={"token": {"POST": ("create", tokenrequest.token)}}),
}
