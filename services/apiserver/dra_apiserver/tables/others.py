"""Rows of the other groups' kinds."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from dra_apiserver.tables.core import age, name, part, quantity_text
from dra_apiserver.tables.text import NONE, UNKNOWN, UNSET, human_duration, selector_text, shortened, since

Object = Mapping[str, Any]


def device_claim(obj: Object, now: datetime) -> list[Any]:
    """A ResourceClaim: pending, allocated, reserved, deleted."""
    status = part(obj, "status")
    deleted = bool(part(obj, "metadata").get("deletionTimestamp"))
    states = ["deleted"] if deleted else []
    if status.get("allocation") is None:
        states += [] if deleted else ["pending"]
    else:
        states += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    return [name(obj), ",".join(states), age(obj, now)]


def named(obj: Object, now: datetime) -> list[Any]:
    """Name and age only."""
    return [name(obj), age(obj, now)]


def device_slice(obj: Object, now: datetime) -> list[Any]:
    """A ResourceSlice."""
    spec = part(obj, "spec")
    pool = part(spec, "pool").get("name", "")
    return [name(obj), spec.get("nodeName", ""), spec.get("driver", ""), pool, age(obj, now)]


def taint_rule(obj: Object, now: datetime) -> list[Any]:
    """A DeviceTaintRule."""
    taint = part(part(obj, "spec"), "taint")
    texts = [taint.get(key, "") for key in ("key", "value", "effect")]
    return [name(obj), *texts, since(taint.get("timeAdded"), now), age(obj, now)]


def pool_status(obj: Object, now: datetime) -> list[Any]:
    """A ResourcePoolStatusRequest: its pools' devices in all, and how far it has come."""
    status = part(obj, "status")
    pools, count = status.get("pools") or [], status.get("poolCount") or 0
    met = [one for one in status.get("conditions") or () if one.get("status") == "True"]
    state = next((one["type"] for one in met if one.get("type") in ("Complete", "Failed")), "Pending")
    completed = next((one.get("lastTransitionTime") for one in met if one.get("type") == "Complete"), None)
    sums = ["-"] * 5
    if status and state != "Failed":
        keys = ("totalDevices", "availableDevices", "allocatedDevices", "unavailableDevices")
        sums = [str(sum(pool.get(key) or 0 for pool in pools)) for key in keys]
        sums.append(str(sum(pool.get("validationError") is not None for pool in pools)))
    shown = f"Complete ({len(pools)}/{count} pools)" if state == "Complete" and count > len(pools) else state
    driver = part(obj, "spec").get("driver", "")
    since_then = NONE if state != "Complete" or completed is None else since(completed, now)
    return [name(obj), driver, *sums, count, shown, since_then]


def pod_group(obj: Object, now: datetime) -> list[Any]:
    """A PodGroup: the status is the reason of its condition."""
    spec = part(obj, "spec")
    policy = next((kind.capitalize() for kind in part(spec, "schedulingPolicy")), NONE)
    workload = part(part(spec, "podGroupTemplateRef"), "workload").get("workloadName") or NONE
    reasons = [
        condition.get("reason", "")
        for condition in part(obj, "status").get("conditions") or ()
        if condition.get("type") == "PodGroupScheduled"
    ]
    return [name(obj), policy, workload, reasons[0] if reasons else "Pending", age(obj, now)]


def disruption_budget(obj: Object, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    bounds = [
        str(spec[key]) if spec.get(key) is not None else "N/A" for key in ("minAvailable", "maxUnavailable")
    ]
    return [name(obj), *bounds, part(obj, "status").get("disruptionsAllowed", 0), age(obj, now)]


def ingress(obj: Object, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    hosts = [rule["host"] for rule in spec.get("rules") or () if rule.get("host")]
    points = part(part(obj, "status"), "loadBalancer").get("ingress") or ()
    address = ",".join(sorted({one.get("ip") or one.get("hostname") or "" for one in points} - {""}))
    ports = "80, 443" if spec.get("tls") else "80"
    return [
        name(obj),
        spec.get("ingressClassName") or NONE,
        shortened(hosts, "*"),
        address,
        ports,
        age(obj, now),
    ]


def ingress_class(obj: Object, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    reference = part(spec, "parameters")
    parameters = NONE
    if reference:
        group = f".{reference['apiGroup']}" if reference.get("apiGroup") else ""
        parameters = f"{reference.get('kind', '')}{group}/{reference.get('name', '')}"
    return [name(obj), spec.get("controller", ""), parameters, age(obj, now)]


_SHOWN_METRICS = 2
_METRICS = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}


def _metric(metric: Object, found: Object) -> str:
    """What one metric is and ought to be."""
    kind = metric.get("type", "")
    if kind not in _METRICS:
        return "<unknown type>"
    source, current = part(metric, _METRICS[kind]), part(part(found, _METRICS[kind]), "current")
    target = part(source, "target")

    def amount(of: Object, field: str) -> str:
        return UNKNOWN if of.get(field) is None else quantity_text(of[field])

    if kind in ("External", "Object"):
        if target.get("averageValue") is not None:
            return f"{amount(current, 'averageValue')}/{amount(target, 'averageValue')} (avg)"
        return f"{amount(current, 'value')}/{amount(target, 'value')}"
    if kind == "Pods":
        return f"{amount(current, 'averageValue')}/{amount(target, 'averageValue')}"
    if target.get("averageValue") is not None:
        now, wanted = amount(current, "averageValue"), amount(target, "averageValue")
    else:
        share, goal = current.get("averageUtilization"), target.get("averageUtilization")
        now = UNKNOWN if share is None else f"{share}%"
        wanted = "<auto>" if goal is None else f"{goal}%"
    return f"{source.get('name', '')}: {now}/{wanted}"


def _processor(said: Object) -> Object:
    return {"type": "Resource", "resource": {"name": "cpu", **said}}


def _metrics(metrics: Sequence[Object], found: Sequence[Object]) -> str:
    if not metrics:
        return NONE
    texts = [
        _metric(one, found[index] if index < len(found) else {})
        for index, one in enumerate(metrics[:_SHOWN_METRICS])
    ]
    more = len(metrics) - _SHOWN_METRICS
    return ", ".join(texts) + (f" + {more} more..." if more > 0 else "")


def autoscaler(obj: Object, now: datetime) -> list[Any]:
    spec, status = part(obj, "spec"), part(obj, "status")
    target = part(spec, "scaleTargetRef")
    reference = f"{target.get('kind', '')}/{target.get('name', '')}"
    least = str(spec["minReplicas"]) if spec.get("minReplicas") is not None else UNSET
    metrics, found = spec.get("metrics") or [], status.get("currentMetrics") or []
    if spec.get("targetCPUUtilizationPercentage") is not None:
        # autoscaling/v1 knows one metric only.
        goal, share = spec["targetCPUUtilizationPercentage"], status.get("currentCPUUtilizationPercentage")
        metrics = [_processor({"target": {"averageUtilization": goal}}), *metrics]
        found = [_processor({"current": {"averageUtilization": share}}), *found]
    targets = _metrics(metrics, found)
    counts = [least, spec.get("maxReplicas", 0), status.get("currentReplicas", 0)]
    return [name(obj), reference, targets, *counts, age(obj, now)]


def network_policy(obj: Object, now: datetime) -> list[Any]:
    return [name(obj), selector_text(part(obj, "spec").get("podSelector")), age(obj, now)]


def role_binding(obj: Object, now: datetime) -> list[Any]:
    role = part(obj, "roleRef")
    subjects = obj.get("subjects") or ()
    users = ", ".join(one.get("name", "") for one in subjects if one.get("kind") == "User")
    groups = ", ".join(one.get("name", "") for one in subjects if one.get("kind") == "Group")
    accounts = ", ".join(
        f"{one.get('namespace', '')}/{one.get('name', '')}"
        for one in subjects
        if one.get("kind") == "ServiceAccount"
    )
    return [
        name(obj),
        f"{role.get('kind', '')}/{role.get('name', '')}",
        age(obj, now),
        users,
        groups,
        accounts,
    ]


def signing_request(obj: Object, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    conditions = {one.get("type") for one in part(obj, "status").get("conditions") or ()}
    states = [kind for kind in ("Denied", "Approved", "Failed") if kind in conditions] or ["Pending"]
    if part(obj, "status").get("certificate"):
        states.append("Issued")
    seconds = spec.get("expirationSeconds")
    duration = NONE if seconds is None else human_duration(seconds)
    signer = spec.get("signerName") or NONE
    return [name(obj), age(obj, now), signer, spec.get("username", ""), duration, ",".join(states)]


def trust_bundle(obj: Object, now: datetime) -> list[Any]:
    return [name(obj), part(obj, "spec").get("signerName") or NONE]


def lease(obj: Object, now: datetime) -> list[Any]:
    return [name(obj), part(obj, "spec").get("holderIdentity", ""), age(obj, now)]


def lease_candidate(obj: Object, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    texts = [spec.get(key, "") for key in ("leaseName", "binaryVersion", "emulationVersion")]
    return [name(obj), *texts, age(obj, now)]


def storage_class(obj: Object, now: datetime) -> list[Any]:
    marks = part(obj, "metadata").get("annotations") or {}
    default = marks.get("storageclass.kubernetes.io/is-default-class") == "true"
    return [
        name(obj) + (" (default)" if default else ""),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy") or "Delete",
        obj.get("volumeBindingMode") or "Immediate",
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now),
    ]


def attributes_class(obj: Object, now: datetime) -> list[Any]:
    return [name(obj), obj.get("driverName", ""), age(obj, now)]


def attachment(obj: Object, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    pv = part(spec, "source").get("persistentVolumeName", "")
    attached = bool(part(obj, "status").get("attached"))
    return [name(obj), spec.get("attacher", ""), pv, spec.get("nodeName", ""), attached, age(obj, now)]


def endpoint_slice(obj: Object, now: datetime) -> list[Any]:
    ports = [str(one.get("port") or one.get("name") or "*") for one in obj.get("ports") or ()]
    addresses = [text for one in obj.get("endpoints") or () for text in one.get("addresses") or ()]
    return [name(obj), obj.get("addressType", ""), shortened(ports), shortened(addresses), age(obj, now)]


def csi_node(obj: Object, now: datetime) -> list[Any]:
    return [name(obj), len(part(obj, "spec").get("drivers") or ()), age(obj, now)]


def csi_driver(obj: Object, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    attach = spec["attachRequired"] if spec.get("attachRequired") is not None else True
    flags = [bool(spec.get(key)) for key in ("podInfoOnMount", "storageCapacity")]
    tokens = ",".join(one.get("audience", "") for one in spec.get("tokenRequests") or ()) or UNSET
    modes = ",".join(spec.get("volumeLifecycleModes") or ()) or NONE
    return [name(obj), attach, *flags, tokens, bool(spec.get("requiresRepublish")), modes, age(obj, now)]


def webhooks(obj: Object, now: datetime) -> list[Any]:
    return [name(obj), len(obj.get("webhooks") or ()), age(obj, now)]


def admission_policy(obj: Object, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    kind = part(spec, "paramKind")
    text = f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else UNSET
    return [name(obj), len(spec.get("validations") or spec.get("mutations") or ()), text, age(obj, now)]


def admission_binding(obj: Object, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    reference = part(spec, "paramRef")
    text = UNSET
    if reference:
        text = reference.get("name") or "*"
        text = f"{reference['namespace']}/{text}" if reference.get("namespace") else f"*/{text}"
    return [name(obj), spec.get("policyName", ""), text, age(obj, now)]


def flow_schema(obj: Object, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    conditions = {one.get("type"): one.get("status") for one in part(obj, "status").get("conditions") or ()}
    method = part(spec, "distinguisherMethod").get("type") or NONE
    level = part(spec, "priorityLevelConfiguration").get("name", "")
    return [
        name(obj),
        level,
        spec.get("matchingPrecedence", 0),
        method,
        age(obj, now),
        conditions.get("Dangling", "?"),
    ]


def priority_level(obj: Object, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    limited = part(spec, "limited")
    queuing = part(part(limited, "limitResponse"), "queuing")
    cells = [limited.get("nominalConcurrencyShares", NONE)]
    cells += [queuing.get(key, NONE) for key in ("queues", "handSize", "queueLengthLimit")]
    return [name(obj), spec.get("type", ""), *cells, age(obj, now)]


def priority_class(obj: Object, now: datetime) -> list[Any]:
    policy = obj.get("preemptionPolicy", "")
    return [name(obj), obj.get("value", 0), bool(obj.get("globalDefault")), age(obj, now), policy]


def runtime_class(obj: Object, now: datetime) -> list[Any]:
    return [name(obj), obj.get("handler", ""), age(obj, now)]


def service_cidr(obj: Object, now: datetime) -> list[Any]:
    return [name(obj), ",".join(part(obj, "spec").get("cidrs") or ()), age(obj, now)]


def ip_address(obj: Object, now: datetime) -> list[Any]:
    parent = part(part(obj, "spec"), "parentRef")
    texts = [parent.get(key, "") for key in ("group", "resource", "namespace", "name")]
    return [name(obj), "/".join(text for text in texts if text).lower()]


def api_service(obj: Object, now: datetime) -> list[Any]:
    target = part(part(obj, "spec"), "service")
    place = f"{target.get('namespace', '')}/{target.get('name', '')}" if target else "Local"
    found: Object | None = next(
        (one for one in part(obj, "status").get("conditions") or () if one.get("type") == "Available"), None
    )
    available = UNKNOWN
    if found is not None:
        available = str(found.get("status", ""))
        if available != "True":
            available += f" ({found.get('reason', '')})"
    return [name(obj), place, available, age(obj, now)]


def scale(obj: Object, now: datetime) -> list[Any]:
    """An autoscaling Scale."""
    counts = [part(obj, "spec").get("replicas", 0), part(obj, "status").get("replicas", 0)]
    return [name(obj), *counts, age(obj, now)]


def storage_version(obj: Object, now: datetime) -> list[Any]:
    status = part(obj, "status")
    common = status.get("commonEncodingVersion") or UNSET
    every = ",".join(
        f"{one.get('apiServerID', '')}={one.get('encodingVersion', '')}"
        for one in status.get("storageVersions") or ()
    )
    return [name(obj), common, every or UNSET, age(obj, now)]


def storage_migration(obj: Object, now: datetime) -> list[Any]:
    resource = part(part(obj, "spec"), "resource")
    texts = [resource.get("resource", ""), resource.get("version", ""), resource.get("group", "")]
    return [name(obj), ".".join(text for text in texts if text)]
