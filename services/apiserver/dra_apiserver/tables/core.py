"""Rows of core, apps and batch kinds."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from dra_shared.quantity import Quantity, QuantityError

from dra_apiserver.tables.pods import pod_cells
from dra_apiserver.tables.text import (
    NONE,
    UNKNOWN,
    UNSET,
    boolean,
    human_duration,
    labels_text,
    moment,
    selector_text,
    shortened,
    since,
)

Object = Mapping[str, Any]
_ROLE = "node-role.kubernetes.io/"
_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def part(obj: Object, name: str) -> Object:
    """A member that is an object, or an empty one."""
    found: Object = obj.get(name) or {}
    return found


def name(obj: Object) -> str:
    """The object's name."""
    return str(part(obj, "metadata").get("name", ""))


def age(obj: Object, now: datetime) -> str:
    """How long ago the object was created."""
    return since(part(obj, "metadata").get("creationTimestamp"), now)


def containers(template: Object) -> list[str]:
    """Names and images of a pod template's containers."""
    every = part(template, "spec").get("containers") or ()
    return [",".join(one.get("name", "") for one in every), ",".join(one.get("image", "") for one in every)]


def pod(obj: Object, now: datetime) -> list[Any]:
    return pod_cells(obj, now)


def pod_template(obj: Object, now: datetime) -> list[Any]:
    template = part(obj, "template")
    return [name(obj), *containers(template), labels_text(part(template, "metadata").get("labels"))]


def replication_controller(obj: Object, now: datetime) -> list[Any]:
    spec, status = part(obj, "spec"), part(obj, "status")
    counts = [spec.get("replicas", 0), status.get("replicas", 0), status.get("readyReplicas", 0)]
    return [
        name(obj),
        *counts,
        age(obj, now),
        *containers(part(spec, "template")),
        labels_text(spec.get("selector")),
    ]


def replica_set(obj: Object, now: datetime) -> list[Any]:
    spec, status = part(obj, "spec"), part(obj, "status")
    counts = [spec.get("replicas", 0), status.get("replicas", 0), status.get("readyReplicas", 0)]
    return [
        name(obj),
        *counts,
        age(obj, now),
        *containers(part(spec, "template")),
        selector_text(spec.get("selector")),
    ]


def deployment(obj: Object, now: datetime) -> list[Any]:
    spec, status = part(obj, "spec"), part(obj, "status")
    return [
        name(obj),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(obj, now),
        *containers(part(spec, "template")),
        selector_text(spec.get("selector")),
    ]


def stateful_set(obj: Object, now: datetime) -> list[Any]:
    spec, status = part(obj, "spec"), part(obj, "status")
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [name(obj), ready, age(obj, now), *containers(part(spec, "template"))]


def daemon_set(obj: Object, now: datetime) -> list[Any]:
    spec, status = part(obj, "spec"), part(obj, "status")
    template = part(spec, "template")
    counters = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [
        name(obj),
        *(status.get(counter, 0) for counter in counters),
        labels_text(part(template, "spec").get("nodeSelector")),
        age(obj, now),
        *containers(template),
        selector_text(spec.get("selector")),
    ]


def controller_revision(obj: Object, now: datetime) -> list[Any]:
    owner: Object = next(
        (one for one in part(obj, "metadata").get("ownerReferences") or () if one.get("controller")), {}
    )
    controller = NONE
    if owner:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        kind = str(owner.get("kind", "")).lower()
        controller = f"{kind}.{group}/{owner.get('name', '')}" if group else f"{kind}/{owner.get('name', '')}"
    return [name(obj), controller, obj.get("revision", 0), age(obj, now)]


def job(obj: Object, now: datetime) -> list[Any]:
    spec, status = part(obj, "spec"), part(obj, "status")
    done = status.get("succeeded", 0)
    if spec.get("completions") is not None:
        completions = f"{done}/{spec['completions']}"
    elif spec.get("parallelism", 0) > 1:
        completions = f"{done}/1 of {spec['parallelism']}"
    else:
        completions = f"{done}/1"
    start, end = moment(status.get("startTime")), moment(status.get("completionTime"))
    duration = "" if start is None else human_duration(((end or now) - start).total_seconds())
    return [
        name(obj),
        _job_status(obj),
        completions,
        duration,
        age(obj, now),
        *containers(part(spec, "template")),
        selector_text(spec.get("selector")),
    ]


def _job_status(obj: Object) -> str:
    holds = {
        one.get("type") for one in part(obj, "status").get("conditions") or () if one.get("status") == "True"
    }
    for kind in ("Complete", "Failed"):
        if kind in holds:
            return kind
    if part(obj, "metadata").get("deletionTimestamp"):
        return "Terminating"
    return next((kind for kind in ("Suspended", "FailureTarget") if kind in holds), "Running")


def cron_job(obj: Object, now: datetime) -> list[Any]:
    spec, status = part(obj, "spec"), part(obj, "status")
    last = status.get("lastScheduleTime")
    job_spec = part(part(spec, "jobTemplate"), "spec")
    return [
        name(obj),
        spec.get("schedule", ""),
        spec.get("timeZone") or NONE,
        boolean(spec.get("suspend")),
        len(status.get("active") or ()),
        since(last, now) if last else NONE,
        age(obj, now),
        *containers(part(job_spec, "template")),
        selector_text(job_spec.get("selector")),
    ]


def _ingress(obj: Object) -> str:
    points = part(part(obj, "status"), "loadBalancer").get("ingress") or ()
    return ",".join(sorted({one.get("ip") or one.get("hostname") or "" for one in points} - {""}))


def _external(obj: Object) -> str:
    spec = part(obj, "spec")
    given = list(spec.get("externalIPs") or ())
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(given) or NONE
        case "LoadBalancer":
            balanced = _ingress(obj)
            return ",".join(([balanced] if balanced else []) + given) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
    return UNKNOWN


def service(obj: Object, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    ports = [
        f"{one.get('port', 0)}{':' + str(one['nodePort']) if one.get('nodePort') else ''}/{one.get('protocol', '')}"
        for one in spec.get("ports") or ()
    ]
    cluster = spec.get("clusterIP") or NONE
    cells = [name(obj), spec.get("type", ""), cluster, _external(obj), ",".join(ports) or NONE]
    return [*cells, age(obj, now), labels_text(spec.get("selector"))]


def endpoints(obj: Object, now: datetime) -> list[Any]:
    listed = []
    for subset in obj.get("subsets") or ():
        addresses = [one.get("ip", "") for one in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        if not ports:
            listed += addresses
        for port in ports:
            listed += [f"[{ip}]:{port['port']}" if ":" in ip else f"{ip}:{port['port']}" for ip in addresses]
    return [name(obj), shortened(listed, NONE), age(obj, now)]


def node(obj: Object, now: datetime) -> list[Any]:
    metadata, spec, status = part(obj, "metadata"), part(obj, "spec"), part(obj, "status")
    ready: Object | None = next(
        (one for one in status.get("conditions") or () if one.get("type") == "Ready"), None
    )
    state = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    if spec.get("unschedulable"):
        state += ",SchedulingDisabled"
    labels = metadata.get("labels") or {}
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)} | {
        labels.get("kubernetes.io/role")
    }
    addresses = {one.get("type"): one.get("address") for one in reversed(status.get("addresses") or ())}
    info = part(status, "nodeInfo")
    return [
        name(obj),
        state,
        ",".join(sorted(role for role in roles if role)) or NONE,
        age(obj, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        info.get("osImage") or UNKNOWN,
        _kernel(info),
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _kernel(info: Object) -> str:
    version, architecture = info.get("kernelVersion") or UNKNOWN, info.get("architecture")
    return f"{version} ({architecture})" if architecture else version


def event(obj: Object, now: datetime) -> list[Any]:
    """An Event of the core group."""
    series = part(obj, "series")
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    last = obj.get("lastTimestamp")
    count = obj.get("count") or 0
    if series:
        last, count = series.get("lastObservedTime"), series.get("count", 0)
    elif count == 0:
        count = 1
    about = part(obj, "involvedObject")
    subject = str(about.get("kind", "")).lower() + (f"/{about['name']}" if about.get("name") else "")
    return [
        since(last or first, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        subject,
        about.get("fieldPath", ""),
        _event_source(obj),
        str(obj.get("message", "")).strip(),
        since(first, now),
        count,
        name(obj),
    ]


def _event_source(obj: Object) -> str:
    source = part(obj, "source")
    component = source.get("component") or obj.get("reportingComponent") or ""
    host = source.get("host") or obj.get("reportingInstance") or ""
    return f"{component}, {host}" if host else str(component)


def grouped_event(obj: Object, now: datetime) -> list[Any]:
    """An Event of events.k8s.io: the same object under other names."""
    return event(
        {
            **obj,
            "involvedObject": obj.get("regarding"),
            "source": obj.get("deprecatedSource"),
            "message": obj.get("note", ""),
            "firstTimestamp": obj.get("deprecatedFirstTimestamp"),
            "lastTimestamp": obj.get("deprecatedLastTimestamp"),
            "count": obj.get("deprecatedCount"),
            "reportingComponent": obj.get("reportingController"),
        },
        now,
    )


def namespace(obj: Object, now: datetime) -> list[Any]:
    return [name(obj), part(obj, "status").get("phase", ""), age(obj, now)]


def secret(obj: Object, now: datetime) -> list[Any]:
    return [name(obj), obj.get("type", ""), len(obj.get("data") or ()), age(obj, now)]


def config_map(obj: Object, now: datetime) -> list[Any]:
    return [name(obj), len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), age(obj, now)]


def _access_modes(modes: Any) -> str:
    return ",".join(_MODES[mode] for mode in _MODES if mode in (modes or ()))


def volume(obj: Object, now: datetime) -> list[Any]:
    metadata, spec, status = part(obj, "metadata"), part(obj, "spec"), part(obj, "status")
    claim = part(spec, "claimRef")
    phase = status.get("phase", "")
    return [
        name(obj),
        part(spec, "capacity").get("storage", ""),
        _access_modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        "Terminating" if metadata.get("deletionTimestamp") else phase,
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or UNSET,
        status.get("reason", ""),
        age(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def claim(obj: Object, now: datetime) -> list[Any]:
    metadata, spec, status = part(obj, "metadata"), part(obj, "spec"), part(obj, "status")
    bound = bool(spec.get("volumeName"))
    return [
        name(obj),
        "Terminating" if metadata.get("deletionTimestamp") else status.get("phase", ""),
        spec.get("volumeName", ""),
        part(status, "capacity").get("storage", "0") if bound else "",
        _access_modes(status.get("accessModes")) if bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or UNSET,
        age(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def component_status(obj: Object, now: datetime) -> list[Any]:
    healthy: Object = next((one for one in obj.get("conditions") or () if one.get("type") == "Healthy"), {})
    state = {"True": "Healthy", "False": "Unhealthy"}.get(healthy.get("status", ""), "Unknown")
    return [name(obj), state, healthy.get("message", ""), healthy.get("error", "")]


def resource_quota(obj: Object, now: datetime) -> list[Any]:
    status = part(obj, "status")
    hard, used = part(status, "hard"), part(status, "used")
    requests: list[str] = []
    limits: list[str] = []
    for key in sorted(hard):
        target = limits if key.startswith("limits") else requests
        target.append(f"{key}: {used.get(key, '0')}/{hard[key]}")
    return [name(obj), ", ".join(requests), ", ".join(limits), age(obj, now)]


def quantity_text(value: Any) -> str:
    """A quantity in its canonical form."""
    try:
        return str(Quantity.parse(str(value)))
    except QuantityError:
        return str(value)
