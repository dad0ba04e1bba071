"""``explain`` and ``free``: ask the scheduler of a dralab cluster, or for other clusters and dumps a local one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import msgspec
import orjson
from dra_kube.access import ChosenCluster
from dra_kube.cluster import Cluster
from dra_scheduler.explain.report import ClassReport, PodReport
from dra_scheduler.explain.text import render, render_class
from dra_shared.errors import UserError

from dra_worlds.surroundings import lines, surroundings

if TYPE_CHECKING:
    from dra_worlds.snapshot import Snapshot

Warn = Callable[[str], None]
_KINDS = {
    "pod": "pod",
    "pods": "pod",
    "po": "pod",
    "claim": "claim",
    "resourceclaim": "claim",
    "resourceclaims": "claim",
    "class": "class",
    "deviceclass": "class",
    "deviceclasses": "class",
}


_NODES = 20


def ignore(_: str) -> None:
    """Do nothing with a warning."""


@dataclass(frozen=True)
class Service:
    """The scheduler of a running dralab cluster."""

    cluster: Cluster


async def explain(
    cluster: ChosenCluster,
    target: str,
    namespace: str,
    nodes: int,
    output: str,
    source: str | None = None,
    *,
    warn: Warn = ignore,
) -> str:
    """Return the explanation of ``pod/NAME``, ``claim/NAME`` or ``class/NAME``.

    ``warn`` is called with each problem that makes the answer uncertain.

    Raises:
        UserError: the target has another kind, or does not exist.
    """
    _check(output)
    kind, slash, name = target.partition("/")
    if not slash:
        kind, name = "pod", target
    if kind not in _KINDS:
        raise UserError(f"cannot explain {target!r}: choose pod/NAME, claim/NAME or class/NAME", 2)
    asked = await _choose_scheduler(cluster, source, warn)
    if not isinstance(asked, Service):
        answer, text = asked.explain(_KINDS[kind], namespace, name, nodes)
    else:
        within = "" if _KINDS[kind] == "class" else f"{namespace}/"
        path = f"/explain/{_KINDS[kind]}/{within}{name}"
        found_json = await _ask(asked, path, {"nodes": str(nodes)})
        answer = orjson.loads(found_json)
        # A second request for the text would explain it again, perhaps with another result.
        text = _render(_KINDS[kind], found_json)
    pod = answer.get("pod", "").partition("/")[2]
    found: dict[str, Any] = {}
    if pod and source is None:
        async with cluster.client() as client:
            found = await surroundings(client, namespace, pod)
    if output:
        return _format(orjson.dumps(answer | found).decode(), output)
    return "\n".join([text.rstrip(), *lines(found)])


async def free(cluster: ChosenCluster, output: str, source: str | None = None, *, warn: Warn = ignore) -> str:
    """Return the free and the used devices; see :func:`explain`.

    Raises:
        UserError: no cluster runs there.
    """
    _check(output)
    asked = await _choose_scheduler(cluster, source, warn)
    if isinstance(asked, Service):
        text = await _ask(asked, "/free", {} if output else {"format": "text"})
    else:
        text = await asked.free("json" if output else "")
    return _format(text, output).rstrip()


async def pod_text(cluster: ChosenCluster, namespace: str, pod: str) -> str:
    """Return the explanation of a pod, as :func:`explain` prints it, without the pod's events.

    Raises:
        UserError: it does not exist, or no cluster runs there.
    """
    asked = await _choose_scheduler(cluster, None, ignore)
    if isinstance(asked, Service):
        return (await _ask(asked, f"/explain/pod/{namespace}/{pod}", {"format": "text"})).rstrip()
    return asked.explain("pod", namespace, pod, _NODES)[1].rstrip()


def _render(kind: str, report: str) -> str:
    """Return a scheduler's report as text."""
    if kind == "class":
        return render_class(msgspec.json.decode(report, type=ClassReport))
    return render(msgspec.json.decode(report, type=PodReport))


def _check(output: str) -> None:
    if output not in ("", "json", "yaml"):
        raise UserError(f"unknown output {output!r}: choose json or yaml, or leave it out", 2)


def _format(text: str, output: str) -> str:
    """Return JSON as YAML if that is the output; any other text as it is."""
    if output != "yaml":
        return text
    import yaml

    dumped: str = yaml.safe_dump(orjson.loads(text), sort_keys=False, allow_unicode=True)
    return dumped


async def _choose_scheduler(cluster: ChosenCluster, source: str | None, warn: Warn) -> "Service | Snapshot":
    """Return the scheduler to ask: that of a dralab cluster, or a new one with the objects of any other cluster
    or dump.
    """
    if source is not None:
        return await _snapshot(source, cluster, warn)
    if cluster.data is not None and not cluster.at:
        home = Cluster(cluster.data)
        if "scheduler" in home.record().services:
            return Service(home)
    return await _snapshot(None, cluster, warn)


async def _ask(service: Service, path: str, params: dict[str, str]) -> str:
    try:
        async with service.cluster.service_client("scheduler", "dralab") as client:
            response = await client.raw("GET", path, params=params)
    except httpx.HTTPError as error:
        raise UserError(f"the scheduler does not answer ({error}); see `dralab status`") from error
    if response.status_code != 200:
        raise UserError(response.text.strip() or f"the scheduler answers {response.status_code}")
    return response.text


async def _snapshot(source: str | None, cluster: ChosenCluster, warn: Warn) -> "Snapshot":
    # It imports the scheduler, which takes longer than all else when a running scheduler can be asked.
    from dra_worlds.snapshot import Snapshot

    snapshot = await Snapshot.read(source, cluster)
    for problem in snapshot.uncertain:
        warn(problem)
    return snapshot
