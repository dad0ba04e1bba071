"""A pod by the name of what made it: ``deploy/x`` is one of the Deployment's pods."""

import sys
from typing import Any

from dra_cli.errors import CommandError
from dra_cli.reader import Reader
from dra_cli.selection import known

_PODS = "pods"


def pod_of(reader: Reader, namespace: str, target: str) -> str:
    """The name of the pod that ``NAME``, ``pod/NAME`` or ``KIND/NAME`` means: of several the first that runs.

    Raises:
        CommandError: the object selects no pods, or there are none.
    """
    kind, slash, name = target.partition("/")
    if not slash:
        return target
    resource = known(reader, [target]).named(kind)
    if resource.plural == _PODS:
        return name
    obj = reader.json(resource.path(namespace, name))
    selector = _selector(obj)
    if not selector:
        raise CommandError(f"cannot attach to {target}: it selects no pods")
    pods = reader.json(f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": selector})["items"]
    if not pods:
        raise CommandError(f"{target} has no pods")
    # As kubectl: those that are ready and older first.
    best = min(
        pods, key=lambda pod: (not _runs(pod), pod["metadata"]["creationTimestamp"], pod["metadata"]["name"])
    )
    found: str = best["metadata"]["name"]
    return found


def container_of(reader: Reader, namespace: str, pod: str) -> str:
    """The container that kubectl takes where none is named: the annotated one, or the first; says so on stderr."""
    obj = reader.json(f"/api/v1/namespaces/{namespace}/pods/{pod}")
    names = [container["name"] for container in obj["spec"]["containers"]]
    annotations = obj["metadata"].get("annotations") or {}
    chosen: str = annotations.get("kubectl.kubernetes.io/default-container") or names[0]
    if len(names) > 1:
        print(f'Defaulted container "{chosen}" out of: {", ".join(names)}', file=sys.stderr)
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
