"""The pods of kinds that operators define, such as JobSet, as if the operators created them all at once.

Gangs of Volcano and KAI become PodGroups of Kubernetes, because kube-scheduler's code places them.
"""

from collections.abc import Iterator, Mapping, Sequence

from dra_shared.jobkinds.kinds import KINDS, REFERENCES
from dra_shared.jobkinds.podsets import Gangs, PodSet, UnknownReference
from dra_shared.jsontypes import JsonObject

from dra_scheduler.plan.errors import PlanError

_SCHEDULER = "default-scheduler"
# Pod groups of other schedulers, and the annotations by which pods name theirs (volcano.sh/apis and KAI-scheduler).
_GROUPS = frozenset((("scheduling.volcano.sh", "PodGroup"), ("scheduling.run.ai", "PodGroup")))
_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name", "pod-group-name")


Expanded = Iterator[tuple[JsonObject, int]]
"""Pods and PodGroups, each as an object and the number of copies."""


def is_job(value: JsonObject) -> bool:
    """True if :func:`expand` accepts the object: a job, an object that jobs refer to, or a group of pods."""
    key = _group(value), str(value["kind"])
    return key in KINDS or key in REFERENCES or key in _GROUPS


def expand(values: Sequence[JsonObject], assumed: list[str], left_out: list[str]) -> Expanded:
    """Yield the pods and PodGroups of these objects.

    ``assumed`` gets a sentence for each gang, and ``left_out`` the name of each object that refers to an object
    which is not in ``values``.

    Raises:
        PlanError: an object lacks a field, or a field has the wrong type.
    """
    noted = {
        (str(value["kind"]), _namespace(value), str(value["metadata"].get("name"))): value
        for value in values
        if (_group(value), value["kind"]) in REFERENCES
    }
    for value in values:
        key = _group(value), str(value["kind"])
        try:
            if key in _GROUPS:
                least = value["spec"].get("minMember") or 1
                yield _pod_group(value, value["metadata"]["name"], least, assumed), 1
            elif key in KINDS:
                yield from _pods(value, KINDS[key](value, lambda *name: noted.get(name)), assumed)
        except UnknownReference as error:
            left_out.append(f"{key[1]} {_namespace(value)}/{_name(value)} without {error}")
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise PlanError(f"a {key[1]} cannot be read: {error!r}") from error


def _pods(value: JsonObject, gangs: Gangs, assumed: list[str]) -> Expanded:
    for number in range(gangs.number):
        gang = f"{_name(value)}-{number}" if gangs.number > 1 else _name(value)
        if gangs.together is not None:
            yield _pod_group(value, gang, gangs.together, assumed), 1
        for one in gangs.sets:
            if one.count:
                yield _pod(value, gang, one, gang if gangs.together is not None else ""), one.count


def _pod_group(value: JsonObject, name: str, least: int, assumed: list[str]) -> JsonObject:
    namespace = _namespace(value)
    assumed.append(
        f"the gang of {value['kind']} {namespace}/{name} counts as a PodGroup with minCount {least}, placed by "
        "kube-scheduler"
    )
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"schedulingPolicy": {"gang": {"minCount": least}}},
    }


def join_gang(pod: JsonObject) -> JsonObject:
    """Return a pod that names its group by an annotation of Volcano or KAI as a pod of that PodGroup."""
    annotations = pod.get("metadata", {}).get("annotations")
    group = _group_name(annotations) if isinstance(annotations, Mapping) else None
    if group is None or "schedulingGroup" in pod.get("spec", {}):
        return pod
    return {
        **pod,
        "spec": {**pod["spec"], "schedulingGroup": {"podGroupName": group}, "schedulerName": _SCHEDULER},
    }


def _group_name(annotations: Mapping[str, str]) -> str | None:
    return next((annotations[name] for name in _ANNOTATIONS if annotations.get(name)), None)


def _pod(value: JsonObject, gang: str, one: PodSet, group: str) -> JsonObject:
    meta = one.template.get("metadata") or {}
    spec = dict(one.template["spec"])
    if group:
        spec |= {"schedulingGroup": {"podGroupName": group}, "schedulerName": _SCHEDULER}
    owner = {
        "apiVersion": value["apiVersion"],
        "kind": value["kind"],
        "name": _name(value),
        "uid": value["metadata"].get("uid") or f"plan-{value['kind']}-{gang}",
        "controller": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{gang}-{one.name}",
            "namespace": _namespace(value),
            "labels": meta.get("labels") or {},
            "annotations": meta.get("annotations") or {},
            "ownerReferences": [owner],
        },
        "spec": spec,
    }


def _group(value: JsonObject) -> str:
    return str(value["apiVersion"]).rpartition("/")[0]


def _name(value: JsonObject) -> str:
    return str(value["metadata"].get("name") or value["metadata"].get("generateName"))


def _namespace(value: JsonObject) -> str:
    return "" if value["kind"].startswith("Cluster") else value["metadata"].get("namespace") or "default"
