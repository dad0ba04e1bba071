"""The pods of a timeline by their shapes: a text, or a pod or workload of manifests."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from dra_scheduler.plan.fit import Wanted
from dra_scheduler.plan.manifests import Manifests
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.wanted import of
from dra_shared.api.meta import Object
from dra_shared.api.pod import Pod
from dra_shared.api.resources import RESOURCE_CLAIM_TEMPLATES, Resource

from dra_worlds.reading import complete

_replace = msgspec.structs.replace
_SHAPE = re.compile(r"(?P<count>\d+)x(?P<name>[a-z0-9.-]+)(?P<more>(?:\+[a-z0-9./-]+=[^+]+)*)")


class Shapes:
    """Pods by the shape in a CSV: the name of a pod of the manifests, or a text such as ``2xgpu.nvidia.com+cpu=4``."""

    def __init__(self, wanted: Wanted | None) -> None:
        pods = wanted.pods if wanted is not None else ()
        self._pods: Mapping[str, Pod] = {name: pod for pod in pods for name in _names(pod)}
        self.others: list[tuple[Resource[Any], Object]] = list(wanted.others if wanted is not None else ())
        self._made: dict[tuple[str, str], Pod] = {}

    def knows(self, name: str) -> bool:
        """True if the manifests have a pod or a workload of that name."""
        return name in self._pods

    def pod(self, shape: str, name: str, namespace: str = "default") -> Pod:
        """Return a pod of that shape and name. A pod of the manifests keeps its namespace.

        Raises:
            ValueError: the shape is unknown.
        """
        shape = shape.strip()
        found = self._pods.get(shape) or self._made.get((shape, namespace))
        if found is None:
            parts = _SHAPE.fullmatch(shape)
            if parts is None:
                raise ValueError(
                    f"shape {shape!r} is neither a pod of --shapes nor COUNTxCLASS[+cpu=AMOUNT][+memory=AMOUNT]"
                )
            found = self._make(parts, len(self._made), namespace)
            self._made[shape, namespace] = found
        return _replace(found, metadata=_replace(found.metadata, name=name))

    def _make(self, parts: re.Match[str], number: int, namespace: str) -> Pod:
        requests = dict(pair.split("=", 1) for pair in parts["more"].split("+") if pair)
        container: dict[str, Any] = {"name": "main", "image": "x", "resources": {"requests": requests}}
        pod: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "shape", "namespace": namespace},
            "spec": {"containers": [container]},
        }
        manifests = [pod]
        if int(parts["count"]):
            template = f"replay-shape-{number}"
            pod["spec"]["resourceClaims"] = [{"name": "devices", "resourceClaimTemplateName": template}]
            container["resources"]["claims"] = [{"name": "devices"}]
            exactly = {"deviceClassName": parts["name"], "count": int(parts["count"])}
            manifests.append(
                {
                    "apiVersion": RESOURCE_CLAIM_TEMPLATES.api_version,
                    "kind": RESOURCE_CLAIM_TEMPLATES.kind,
                    "metadata": {"name": template, "namespace": namespace},
                    "spec": {"spec": {"devices": {"requests": [{"name": "devices", "exactly": exactly}]}}},
                }
            )
        found = Manifests(complete)
        for each in manifests:
            found.add(each)
        made = of(found, Objects())
        self.others += made.others
        return made.pods[0]


def _names(pod: Pod) -> Iterator[str]:
    """Return the pod's name, and the name of its workload."""
    yield pod.metadata.name
    yield from (owner.name for owner in pod.metadata.owner_references if owner.controller)
