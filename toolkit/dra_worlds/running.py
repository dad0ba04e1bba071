"""Find a cluster's Kubernetes version and feature gates."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import orjson
from dra_scheduler.plan.objects import Objects
from dra_shared.api.resources import NODES
from dra_shared.client.rest import Client
from dra_shared.version import DEFAULT, VERSIONS, Version, release

_ENABLED = re.compile(r'^kubernetes_feature_enabled\{name="(\w+)",stage="\w*"\} ([01])', re.MULTILINE)
_VERSION = re.compile(r"v?(\d+)\.(\d+)")


@dataclass(frozen=True)
class Running:
    """The version of a cluster, or None if it is unknown, and the state of its feature gates.

    ``gates`` are the feature gates that differ from the version's defaults. ``reported`` are the gates that
    the cluster reports. The state of other gates is unknown. If an object needs a gate, that gate is on.
    """

    version: Version | None = None
    gates: Mapping[str, bool] = field(default_factory=dict)
    reported: frozenset[str] = frozenset()

    def states(self) -> dict[str, bool]:
        """Return the state of each gate that is known."""
        defaults = release(self.version or DEFAULT).gates
        return {name: defaults[name].default for name in self.reported} | dict(self.gates)


UNKNOWN = Running()
"""A cluster whose version and gates are unknown."""


async def read_version_and_gates(client: Client) -> tuple[str, dict[str, bool]]:
    """Return the version and all feature gates that an API server reports; no gates if it reports none."""
    version = await client.raw("GET", "/version")
    metrics = await client.raw("GET", "/metrics")
    text = ""
    if version.status_code == 200:
        text = str(orjson.loads(version.content).get("gitVersion") or "")
    found = _ENABLED.findall(metrics.content.decode(errors="replace")) if metrics.status_code == 200 else ()
    return text, {name: on == "1" for name, on in found}


async def of_cluster(client: Client, problems: list[str]) -> Running:
    """Return the version and gates of a running cluster. An unknown version is reported in ``problems``."""
    text, gates = await read_version_and_gates(client)
    version = _closest_version(text, problems)
    known = release(version or DEFAULT).gates
    return Running(
        version,
        {name: on for name, on in gates.items() if name in known and known[name].default != on},
        frozenset(gates.keys() & known.keys()),
    )


def of_objects(objects: Objects, problems: list[str]) -> Running:
    """Return the version of a dump's newest kubelet."""
    newest = newest_of(node.status.node_info.kubelet_version for node in objects.of(NODES).values())
    return Running(_closest_version(newest, problems))


def newest_of(kubelets: Iterable[str]) -> str:
    """Return the newest of these versions without its patch release, or "" if there is none."""
    found = [match for text in kubelets if (match := _VERSION.match(text)) is not None]
    newest = max(((int(match[1]), int(match[2])) for match in found), default=None)
    return "" if newest is None else f"{newest[0]}.{newest[1]}"


def _closest_version(text: str, problems: list[str]) -> Version | None:
    """Return the version in ``text``, or the closest version that we know."""
    match = _VERSION.match(text)
    if match is None:
        return None
    there = Version(int(match[1]), int(match[2]))
    nearest = min(max(there, VERSIONS[0]), VERSIONS[-1])
    if nearest != there:
        problems.append(f"Kubernetes {there} is not known: the scheduler of {nearest} decides")
    return nearest
