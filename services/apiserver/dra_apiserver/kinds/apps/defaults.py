"""Defaults of apps/v1, as ``pkg/apis/apps/v1/defaults.go`` sets them."""

from dra_shared.jsontypes import JsonObject

from dra_apiserver.kinds.pods.defaults import pod_template
from dra_apiserver.kinds.storage.defaults import claim_defaults


def deployment(obj: JsonObject, _version: str, _now: str) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    pod_template(spec.setdefault("template", {}))


def replica_set(obj: JsonObject, _version: str, _now: str) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    pod_template(spec.setdefault("template", {}))


def daemon_set(obj: JsonObject, _version: str, _now: str) -> None:
    # The strategy counts changes of the template in this field. It is owned by the manager that created the
    # DaemonSet.
    annotations = obj.setdefault("metadata", {}).get("annotations") or {}
    obj["metadata"]["annotations"] = {"deprecated.daemonset.template.generation": "0", **annotations}
    spec = obj.setdefault("spec", {})
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    pod_template(spec.setdefault("template", {}))


def stateful_set(obj: JsonObject, _version: str, _now: str) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    # A strategy that only states its type gets the other defaults, too.
    if strategy["type"] == "RollingUpdate" and isinstance(strategy.get("rollingUpdate"), dict):
        strategy["rollingUpdate"].setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    pod_template(spec.setdefault("template", {}))
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim_defaults(claim)
