"""``status``: a cluster's processes and whether they are ready."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
import orjson
from dra_kube.cluster import Cluster, Record
from dra_shared.errors import UserError
from dra_shared.version import VERSIONS


@dataclass(frozen=True)
class Process:
    """A service of the cluster. ``problem`` is the reason why it is not ready."""

    name: str
    url: str
    pid: int
    restarts: int
    ready: bool
    problem: str


@dataclass(frozen=True)
class Status:
    """A cluster's processes, its version of Kubernetes, and its nodes by their state.

    Without an API server that is ready, ``kubernetes`` is empty and ``nodes`` is None.
    """

    server: str
    pid: int
    data: str
    services: list[Process]
    kubernetes: str
    nodes: dict[str, int] | None


async def show(data: Path, output: str = "") -> None:
    """Print the services and whether they are ready, as text or in the output ``json`` or ``yaml``.

    Raises:
        UserError: no cluster runs there, or a service is not ready.
    """
    status = await read_status(Cluster(data))
    if output == "json":
        print(orjson.dumps(asdict(status)).decode())
    elif output == "yaml":
        import yaml

        print(yaml.safe_dump(asdict(status), sort_keys=False, allow_unicode=True), end="")
    else:
        print("\n".join(_render(status)))
    if failing := [service.name for service in status.services if not service.ready]:
        raise UserError(f"not ready: {', '.join(failing)}")


async def read_status(cluster: Cluster) -> Status:
    """Ask each service whether it is ready, and count the nodes.

    Raises:
        UserError: no cluster runs there.
    """
    try:
        record = cluster.record()
    except UserError as error:
        if pid := cluster.holder():
            why = "is not ready" if cluster.is_running() else "has lost its directory and stops"
            raise UserError(f"the cluster in {cluster.data} (pid {pid}) {why}") from error
        raise
    services = [await _ask(cluster, record, name) for name in record.services]
    # If the record has no entry for it, the API server belongs to another program.
    reachable = all(service.ready for service in services if service.name == "apiserver")
    nodes = dict((await count_nodes(cluster)).most_common()) if reachable else None
    kubernetes = await read_version(cluster) if reachable else ""
    return Status(record.server, record.pid, str(cluster.data), services, kubernetes, nodes)


async def _ask(cluster: Cluster, record: Record, name: str) -> Process:
    service = record.services[name]
    # The API servers accept the administrator's token; the other services have one of their own.
    reached = (
        cluster.client("dralab", service.url)
        if name.startswith("apiserver")
        else cluster.service_client(name, "dralab")
    )
    async with reached as client:
        try:
            response = await client.raw("GET", "/readyz", params={"verbose": ""})
            ready = response.status_code == 200
            problem = "" if ready else response.text.replace("\n", "; ")
        except (httpx.HTTPError, OSError) as error:
            ready, problem = False, str(error)
    return Process(name, service.url, service.pid, service.restarts, ready, problem)


async def read_version(cluster: Cluster) -> str:
    """Return the version that the API server follows, and whether that is a preview."""
    async with cluster.client("dralab") as client:
        answer = (await client.raw("GET", "/version")).json()
    text = f"{answer['major']}.{answer['minor']}"
    return next((version.describe() for version in VERSIONS if str(version) == text), text)


async def count_nodes(cluster: Cluster) -> Counter[str]:
    """Count the nodes by state. It reads a table, because whole nodes would be many megabytes."""
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    async with cluster.client("dralab") as client:
        response = await client.raw("GET", "/api/v1/nodes", params={"includeObject": "None"}, accept=table)
    return Counter(row["cells"][1] for row in response.json().get("rows") or ())


def _render(status: Status) -> Iterator[str]:
    yield f"{status.server}  (pid {status.pid}, data {status.data})"
    widest = max((len(service.name) for service in status.services), default=0)
    if status.kubernetes:
        yield f"Kubernetes {status.kubernetes}"
    for one in status.services:
        times = "restart" if one.restarts == 1 else "restarts"
        restarts = f", {one.restarts} {times}" if one.restarts else ""
        state = "ready" if one.ready else "not ready"
        yield f"{one.name:{widest}} {state:9}  {one.url}  pid {one.pid}{restarts}  {one.problem}".rstrip()
    if status.nodes is not None:
        states = ", ".join(f"{number} {state.lower()}" for state, number in status.nodes.items())
        yield f"{'nodes':{widest}} {states or 'none'}"
