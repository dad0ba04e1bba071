"""Find a pod by its owner: ``deploy/x`` is one of the Deployment's pods."""

from collections.abc import Callable, Sequence
from typing import Any

from dra_shared.errors import UserError

from dra_kube.reader import Reader
from dra_kube.selection import discover

_PODS = "pods"


def pod_of(reader: Reader, namespace: str, target: str) -> str:
    """Return the name of the pod that ``NAME``, ``pod/NAME`` or ``KIND/NAME`` names; of several, the first that runs.

    Raises:
        UserError: the object selects no pods, or there are none.
    """
    kind, slash, name = target.partition("/")
    if not slash:
        return target
    if discover(reader, [target]).resolve(kind).plural == _PODS:
        return name
    # As with kubectl, ready pods come first, then older ones.
    return _name_of_first(_pods_of(reader, namespace, target), lambda pod: not _runs(pod))


def waiting_pod_of(reader: Reader, namespace: str, target: str) -> str:
    """Return the name of the first pod of ``KIND/NAME`` that is not on a node, of any pod if all are on nodes.

    Raises:
        UserError: the object selects no pods, or there are none.
    """
    return _name_of_first(_pods_of(reader, namespace, target), lambda pod: bool(pod["spec"].get("nodeName")))


def _pods_of(reader: Reader, namespace: str, target: str) -> list[dict[str, Any]]:
    kind, _, name = target.partition("/")
    resource = discover(reader, [target]).resolve(kind)
    obj = reader.json(resource.path(namespace, name))
    selector = _selector(obj)
    if not selector:
        raise UserError(f"cannot attach to {target}: it selects no pods")
    pods: list[dict[str, Any]] = reader.json(
        f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": selector}
    )["items"]
    if not pods:
        raise UserError(f"{target} has no pods")
    return pods


def _name_of_first(pods: Sequence[dict[str, Any]], later: Callable[[dict[str, Any]], bool]) -> str:
    """Return the name of the oldest pod. Pods for which ``later`` is true are taken only if there are no others."""
    first = min(
        pods, key=lambda pod: (later(pod), pod["metadata"]["creationTimestamp"], pod["metadata"]["name"])
    )
    return str(first["metadata"]["name"])


def container_of(reader: Reader, namespace: str, pod: str, note: Callable[[str], None]) -> str:
    """Return kubectl's default container: the annotated one, or the first. If there are several, note the choice."""
    obj = reader.json(f"/api/v1/namespaces/{namespace}/pods/{pod}")
    names = [container["name"] for container in obj["spec"]["containers"]]
    annotations = obj["metadata"].get("annotations") or {}
    chosen: str = annotations.get("kubectl.kubernetes.io/default-container") or names[0]
    if len(names) > 1:
        note(f'Defaulted container "{chosen}" out of: {", ".join(names)}')
    return chosen


def _runs(pod: dict[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def _selector(obj: dict[str, Any]) -> str:
    selector = obj.get("spec", {}).get("selector") or {}
    if "matchLabels" in selector or "matchExpressions" in selector:
        parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
        for one in selector.get("matchExpressions") or ():
            values = ",".join(one.get("values") or ())
            operators = {"In": "{} in ({})", "NotIn": "{} notin ({})", "Exists": "{}", "DoesNotExist": "!{}"}
            parts.append(operators[one["operator"]].format(one["key"], values))
        return ",".join(parts)
    return ",".join(f"{key}={value}" for key, value in selector.items())
