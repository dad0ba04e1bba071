"""The default priority levels and flow schemas of API priority and fairness."""

from collections.abc import Iterator

from dra_shared.jsontypes import JsonObject

_VERSION = "flowcontrol.apiserver.k8s.io/v1"
_EVERYBODY = ("Group system:unauthenticated", "Group system:authenticated")
_SYSTEM_ACCOUNTS = "ServiceAccount kube-system/*"
_MANAGER, _SCHEDULER = "User system:kube-controller-manager", "User system:kube-scheduler"

# Name: shares, percentage that others may borrow, and if requests are queued, the number of queues and the
# hand size.
_LEVELS: dict[str, tuple[int, int, tuple[int, int] | None]] = {
    "catch-all": (5, 0, None),
    "global-default": (20, 50, (128, 6)),
    "leader-election": (10, 0, (16, 4)),
    "node-high": (40, 25, (64, 6)),
    "system": (30, 33, (64, 6)),
    "workload-high": (40, 50, (128, 6)),
    "workload-low": (100, 90, (128, 6)),
}
_QUEUE_LENGTH = 50

# Name, precedence, level, distinguisher of flows, users.
_SCHEMAS: tuple[tuple[str, int, str, str, tuple[str, ...]], ...] = (
    ("exempt", 1, "exempt", "", ("Group system:masters",)),
    ("probes", 2, "exempt", "", _EVERYBODY),
    ("system-leader-election", 100, "leader-election", "ByUser", (_MANAGER, _SCHEDULER, _SYSTEM_ACCOUNTS)),
    ("system-node-high", 400, "node-high", "ByUser", ("Group system:nodes",)),
    ("system-nodes", 500, "system", "ByUser", ("Group system:nodes",)),
    ("kube-controller-manager", 800, "workload-high", "ByNamespace", (_MANAGER,)),
    ("kube-scheduler", 800, "workload-high", "ByNamespace", (_SCHEDULER,)),
    ("kube-system-service-accounts", 900, "workload-high", "ByNamespace", (_SYSTEM_ACCOUNTS,)),
    ("service-accounts", 9000, "workload-low", "ByUser", ("Group system:serviceaccounts",)),
    ("global-default", 9900, "global-default", "ByUser", _EVERYBODY),
    ("catch-all", 10000, "catch-all", "ByUser", _EVERYBODY),
)
_LEASES: JsonObject = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "namespaces": ["*"]}


def _meta(name: str) -> JsonObject:
    return {"name": name, "generation": 1, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}}


def _level(name: str, spec: JsonObject) -> JsonObject:
    kind = "PriorityLevelConfiguration"
    return {"kind": kind, "apiVersion": _VERSION, "metadata": _meta(name), "spec": spec, "status": {}}


def priority_levels() -> Iterator[JsonObject]:
    """Yield the default priority levels."""
    yield _level(
        "exempt", {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}}
    )
    for name, (shares, lendable, queues) in _LEVELS.items():
        response: JsonObject = {"type": "Reject"}
        if queues is not None:
            queuing = {"queues": queues[0], "handSize": queues[1], "queueLengthLimit": _QUEUE_LENGTH}
            response = {"type": "Queue", "queuing": queuing}
        limited = {
            "nominalConcurrencyShares": shares,
            "limitResponse": response,
            "lendablePercent": lendable,
        }
        yield _level(name, {"type": "Limited", "limited": limited})


def _subject(text: str) -> JsonObject:
    kind, name = text.split()
    if kind == "ServiceAccount":
        namespace, _, account = name.partition("/")
        return {"kind": kind, "serviceAccount": {"namespace": namespace, "name": account}}
    return {"kind": kind, kind.lower(): {"name": name}}


def _rule(name: str) -> JsonObject:
    if name == "probes":
        return {
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]
        }
    if name == "system-leader-election":
        return {"resourceRules": [{"verbs": ["get", "create", "update"], **_LEASES}]}
    if name == "system-node-high":
        nodes = {"verbs": ["*"], "apiGroups": [""], "resources": ["nodes", "nodes/status"]}
        return {
            "resourceRules": [
                {**nodes, "clusterScope": True, "namespaces": ["*"]},
                {"verbs": ["*"], **_LEASES},
            ]
        }
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True}
    return {
        "resourceRules": [{**everything, "namespaces": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }


def flow_schemas(now: str) -> Iterator[JsonObject]:
    """Yield the default flow schemas, whose levels were found at ``now``."""
    for name, precedence, level, method, subjects in _SCHEMAS:
        spec: JsonObject = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence}
        if method:
            spec["distinguisherMethod"] = {"type": method}
        spec["rules"] = [{"subjects": [_subject(one) for one in subjects], **_rule(name)}]
        text = (
            f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" and it exists'
        )
        condition = {
            "type": "Dangling",
            "status": "False",
            "lastTransitionTime": now,
            "reason": "Found",
            "message": text,
        }
        yield {
            "kind": "FlowSchema",
            "apiVersion": _VERSION,
            "metadata": _meta(name),
            "spec": spec,
            "status": {"conditions": [condition]},
        }
