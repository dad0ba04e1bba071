"""The kinds of apps, and replication controllers (upstream's `pkg/registry/apps`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_label_name

from dra_apiserver.common.builtin import builtin
from dra_apiserver.common.checked import StatusStrategy
from dra_apiserver.common.fieldlabels import unsupported_field_label
from dra_apiserver.common.printing import printer
from dra_apiserver.kindkit.behaviour import Deletion, Validation, Writes
from dra_apiserver.kinds.apps import columns, defaults, status, warnings
from dra_apiserver.kinds.apps.strategy import (
    DaemonSetStrategy,
    DeploymentStrategy,
    ReplicationControllerStrategy,
    WorkloadStrategy,
)
from dra_apiserver.kinds.pods.defaults import pod_template


def replication_controller(obj: JsonObject, _version: str, _now: str) -> None:
    spec = obj.setdefault("spec", {})
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        metadata = obj.setdefault("metadata", {})
        if not metadata.get("labels"):
            metadata["labels"] = dict(labels)
    spec.setdefault("replicas", 1)
    pod_template(spec.get("template"))


KINDS = (
    builtin(
        "",
        "replicationcontrollers",
        selects_by_labels=True,
        strategy=ReplicationControllerStrategy(),
        status_strategy=StatusStrategy(status.check_controller_status),
        default=replication_controller,
        printer=printer(
            "Name|Desired#|Current#|Ready#|Age|Containers*|Images*|Selector*", columns.replication_controller
        ),
        warnings={"": warnings.replication_controller},
        writes=Writes(counts_generation=True),
        deletion=Deletion(orphans_dependents=True),
        field_label_error=unsupported_field_label,
    ),
    builtin(
        "apps",
        "controllerrevisions",
        printer=printer("Name|Controller|Revision|Age", columns.controller_revision),
    ),
    builtin(
        "apps",
        "daemonsets",
        strategy=DaemonSetStrategy(),
        status_strategy=StatusStrategy(status.check_daemon_set_status),
        default=defaults.daemon_set,
        printer=printer(
            "Name|Desired#|Current#|Ready#|Up-to-date#|Available#|Node Selector|Age|Containers*|Images*|Selector*",
            columns.daemon_set,
        ),
        warnings={"": warnings.template},
        writes=Writes(counts_generation=True),
    ),
    builtin(
        "apps",
        "deployments",
        strategy=DeploymentStrategy(),
        status_strategy=StatusStrategy(status.check_deployment_status),
        default=defaults.deployment,
        printer=printer(
            "Name|Ready|Up-to-date|Available|Age|Containers*|Images*|Selector*", columns.deployment
        ),
        warnings={"": warnings.named_template},
        writes=Writes(
            counts_generation=True, reset_fields={"status": [("f:spec",), ("f:metadata", "f:labels")]}
        ),
    ),
    builtin(
        "apps",
        "replicasets",
        strategy=WorkloadStrategy("deployment", False),
        status_strategy=StatusStrategy(status.check_replica_set_status),
        default=defaults.replica_set,
        printer=printer(
            "Name|Desired#|Current#|Ready#|Age|Containers*|Images*|Selector*", columns.replica_set
        ),
        warnings={"": warnings.named_template},
        writes=Writes(counts_generation=True),
    ),
    builtin(
        "apps",
        "statefulsets",
        strategy=WorkloadStrategy("statefulset", True),
        status_strategy=StatusStrategy(status.check_stateful_set_status),
        default=defaults.stateful_set,
        printer=printer("Name|Ready|Age|Containers*|Images*", columns.stateful_set),
        warnings={"": warnings.stateful_set},
        validation=Validation(name_rule=dns_label_name),
        writes=Writes(counts_generation=True),
    ),
)
