"""Exclusive placement: no two Jobs have pods in the same topology domain.

Mirrors pkg/webhooks/pod_webhook.go.
"""

from dra_shared.api.codec import convert
from dra_shared.api.node import Node
from dra_shared.api.pod import Pod
from dra_shared.api.priorityclass import PriorityClass
from dra_shared.api.resources import PODS
from dra_shared.claims import controller_of
from dra_shared.client.store import Store
from dra_shared.jsontypes import JsonObject

from dra_controller.jobkinds.controller import to_plain
from dra_controller.jobkinds.jobset.jobs import (
    EXCLUSIVE,
    JOB_INDEX,
    JOB_KEY,
    NAME,
    NODE_SELECTOR,
    PRIORITY,
    REPLICATED_JOB,
    name_job,
)
from dra_controller.podadmission import refuse
from dra_controller.pods import is_active

_INDEX = "batch.kubernetes.io/job-completion-index"
_WEBHOOK = "vpod.kb.io"


class Placement:
    """Places the first pod of each Job by affinity, and the others in its domain."""

    def __init__(self, pods: Store[Pod], nodes: Store[Node], classes: Store[PriorityClass]) -> None:
        self._pods = pods
        self._nodes = nodes
        self._classes = classes
        pods.add_index(JOB_KEY, _job_keys)

    def admit(self, pod: Pod) -> Pod:
        """Return the pod with the constraints of its Job.

        Raises:
            Forbidden: the first pod has no node yet.
        """
        annotations = pod.metadata.annotations
        if EXCLUSIVE not in annotations or NODE_SELECTOR in annotations:
            return pod
        body = to_plain(pod)
        labels = body["metadata"]["labels"]
        labels[PRIORITY] = str(self._priority(pod))
        if annotations.get(_INDEX) == "0":
            _add_affinities(body["spec"], labels, annotations[EXCLUSIVE])
        else:
            key = annotations[EXCLUSIVE]
            body["spec"].setdefault("nodeSelector", {})[key] = self._domain(pod, key)
        return convert(PODS, body)

    def _priority(self, pod: Pod) -> int:
        """Return the pod's priority.

        The real webhook gets it from the API server, but this code runs before the API server sets it.
        """
        if pod.spec.priority is not None:
            return pod.spec.priority
        if pod.spec.priority_class_name:
            found = self._classes.get(pod.spec.priority_class_name)
            return found.value if found is not None else 0
        return next((one.value for one in self._classes.list() if one.global_default), 0)

    def _domain(self, pod: Pod, key: str) -> str:
        """Return the domain of the Job's first pod."""
        labels = pod.metadata.labels
        job = name_job(labels[NAME], labels[REPLICATED_JOB], labels[JOB_INDEX])
        owner = controller_of(pod)
        leaders = [
            one
            for one in self._pods.by_index(JOB_KEY, labels[JOB_KEY])
            if is_active(one)
            and one.metadata.annotations.get(_INDEX) == "0"
            and (other := controller_of(one)) is not None
            and owner is not None
            and other.uid == owner.uid
        ]
        if len(leaders) != 1:
            text = f"expected 1 leader pod ({job}-0), but got {len(leaders)}"
            raise refuse(_WEBHOOK, f"{text}. this is an expected, transient error")
        node = self._nodes.get(leaders[0].spec.node_name) if leaders[0].spec.node_name else None
        if node is None:
            text = "leader pod not yet scheduled, not creating follower pod"
            raise refuse(_WEBHOOK, f"{text}. this is an expected, transient error")
        if key not in node.metadata.labels:
            raise refuse(_WEBHOOK, f"node does not have topology label: {key}")
        return node.metadata.labels[key]


def _job_keys(pod: Pod) -> list[str]:
    key = pod.metadata.labels.get(JOB_KEY)
    return [key] if key is not None and EXCLUSIVE in pod.metadata.annotations else []


def _add_affinities(spec: JsonObject, labels: JsonObject, topology: str) -> None:
    affinity = spec.setdefault("affinity", {})
    own = [{"key": JOB_KEY, "operator": "In", "values": [labels[JOB_KEY]]}]
    others = [
        {"key": JOB_KEY, "operator": "Exists"},
        {"key": JOB_KEY, "operator": "NotIn", "values": [labels[JOB_KEY]]},
        {"key": PRIORITY, "operator": "In", "values": [labels[PRIORITY]]},
    ]
    for kind, expressions in (("podAffinity", own), ("podAntiAffinity", others)):
        term = {
            "labelSelector": {"matchExpressions": expressions},
            "topologyKey": topology,
            "namespaceSelector": {},
        }
        terms = affinity.setdefault(kind, {}).setdefault("requiredDuringSchedulingIgnoredDuringExecution", [])
        terms.append(term)
