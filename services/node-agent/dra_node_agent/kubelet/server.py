"""The kubelet's HTTP endpoints: container logs, exec, attach and pods (pkg/kubelet/server).

All nodes of the process share one server. A pod's name determines its node.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from dra_shared.api.container import ContainerStatus
from dra_shared.api.pod import Pod
from dra_shared.clock import Clock, parse_rfc3339
from dra_shared.guard import Guard
from dra_shared.numerals import integer

from dra_node_agent.kubelet import containeredits, portforward
from dra_node_agent.kubelet.kubelet import Kubelet
from dra_node_agent.kubelet.podstatus import ephemeral_containers
from dra_node_agent.kubelet.resourcemetrics import render
from dra_node_agent.kubelet.streaming import ChannelStreams, exit_status, failure_status
from dra_node_agent.kubelet.websocket import Refused, WebSocket
from dra_node_agent.runtime.base import ContainerRecord, LogOptions, Runtime, RuntimeFailure, State

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_WAITING = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}
NODE_HEADER = "dralab-node"
"""The header by which the API server selects one of the nodes that share the port."""
_STREAMS = ("All", "Stdout", "Stderr")

Endpoint = Callable[[Any], Awaitable[Any]]


class _Refused(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class KubeletServer:
    """The endpoints for the kubelets of one process."""

    def __init__(self, kubelets: Sequence[Kubelet], clock: Clock, guard: Guard | None = None) -> None:
        self._kubelets = kubelets
        self._clock = clock
        self._guard = guard or Guard()

    def routes(self) -> Mapping[str, Endpoint]:
        """Return the endpoints by path, for :class:`dra_shared.service.HealthServer`."""
        return {
            "/containerLogs/{namespace}/{pod}/{container}": self._logs,
            **{
                f"{method} /{action}/{{path:path}}": self._not_upgraded
                for method in ("GET", "POST")
                for action in ("exec", "attach", "portForward")
            },
            "/containerEdits/{namespace}/{pod}": self._edits,
            "/cgroups/{namespace}/{pod}": self._cgroups,
            "/metrics/resource": self._resource_metrics,
            "/pods": self._pods,
            "/pods/": self._pods,
        }

    async def _resource_metrics(self, request: "Request") -> "Response":
        """Return the metrics of the node in the header, or of all nodes together without it."""
        from starlette.responses import Response

        name = request.headers.get(NODE_HEADER)
        asked = [kubelet for kubelet in self._kubelets if name in (None, kubelet.name)]
        if not asked:
            return Response(f"no node {name} here", status_code=404, media_type="text/plain")
        samples = await asyncio.gather(*(kubelet.meter.measure() for kubelet in asked))
        return Response(render(samples), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _pods(self, _: "Request") -> "Response":
        from starlette.responses import Response

        pods = [
            {"apiVersion": "v1", "kind": "Pod", **msgspec.to_builtins(pod)}
            for kubelet in self._kubelets
            for pod in kubelet.pods()
        ]
        body = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods}
        return Response(msgspec.json.encode(body), media_type="application/json")

    async def _edits(self, request: "Request") -> "Response":
        from starlette.responses import PlainTextResponse, Response

        path = request.path_params
        try:
            kubelet, pod = self._find(path["namespace"], path["pod"])
        except _Refused as error:
            return PlainTextResponse(str(error), status_code=error.code)
        found = containeredits.of_pod(pod, kubelet.dra, kubelet.devices, kubelet.runtime)
        return Response(msgspec.json.encode(found), media_type="application/json")

    async def _cgroups(self, request: "Request") -> "Response":
        from starlette.responses import PlainTextResponse, Response

        path = request.path_params
        try:
            kubelet, pod = self._find(path["namespace"], path["pod"])
        except _Refused as error:
            return PlainTextResponse(str(error), status_code=error.code)
        found = kubelet.cgroups.describe(pod)
        return Response(msgspec.json.encode(found), media_type="application/json")

    async def stream(self, socket: WebSocket) -> None:
        """Serve ``/exec/…``, ``/attach/…`` and ``/portForward/…`` on upgraded connections.

        Raises:
            Refused: the container does not exist or does not run, or the request comes from a web page.
        """
        given = socket.request.headers
        headers = {name.encode("latin-1"): value.encode("latin-1") for name, value in given.items()}
        if reason := self._guard.refusal("GET", headers, socket.certificate):
            raise Refused(403, f"forbidden: {reason}")
        _, action, *parts = socket.request.path.split("/")
        if action == "portForward" and len(parts) in (2, 3):
            await self._forward_ports(socket, *parts[:2])
            return
        if action not in ("exec", "attach") or len(parts) not in (3, 4):
            raise Refused(404, "404 page not found")
        namespace, name, container = parts[0], parts[1], parts[-1]
        command = [value for key, value in socket.request.query if key == "command"]
        try:
            kubelet, pod = self._find(namespace, name)
            record = _record(kubelet, pod, container, previous=False)
        except _Refused as error:
            raise Refused(error.code, str(error)) from error
        if record.state is not State.RUNNING:
            raise Refused(500, f"container not running ({record.id})")
        streams = ChannelStreams(socket)
        await streams.open()
        if action == "exec":
            work = asyncio.ensure_future(kubelet.runtime.exec_session(record.id, command, streams))
        else:
            work = asyncio.ensure_future(_attach(kubelet.runtime, record.id, streams))
        try:
            code = await streams.run(work)
        except RuntimeFailure as error:
            await streams.finish(
                failure_status("executing command in" if action == "exec" else "attaching to", error)
            )
        else:
            if code is not None:
                await streams.finish(exit_status(command, code))

    async def _forward_ports(self, socket: WebSocket, namespace: str, name: str) -> None:
        try:
            kubelet, pod = self._find(namespace, name)
        except _Refused as error:
            raise Refused(error.code, str(error)) from error
        uid = pod.metadata.uid
        await portforward.serve(socket, partial(kubelet.runtime.connect, uid), uid)

    async def _not_upgraded(self, _: "Request") -> "Response":
        from starlette.responses import PlainTextResponse

        return PlainTextResponse("unable to upgrade: only WebSocket is served", status_code=400)

    async def _logs(self, request: "Request") -> "Response":
        from starlette.responses import PlainTextResponse, StreamingResponse

        path = request.path_params
        try:
            options = _options(request.query_params, self._clock.now())
            kubelet, pod = self._find(path["namespace"], path["pod"])
            previous = request.query_params.get("previous", "").lower() in ("true", "1")
            record = _record(kubelet, pod, path["container"], previous)
        except _Refused as error:
            return PlainTextResponse(str(error), status_code=error.code)
        pieces: AsyncIterator[bytes] = kubelet.runtime.logs(record.id, options)
        return StreamingResponse(pieces, media_type="text/plain")

    def _find(self, namespace: str, name: str) -> tuple[Kubelet, Pod]:
        for kubelet in self._kubelets:
            pod = kubelet.find_pod(namespace, name)
            if pod is not None:
                return kubelet, pod
        raise _Refused(404, f'pod does not exist: pod "{namespace}/{name}" not found')


async def _attach(runtime: Runtime, container_id: str, streams: ChannelStreams) -> int:
    await runtime.attach(container_id, streams)
    return 0


def _options(query: Mapping[str, str], now: datetime) -> LogOptions:
    since: datetime | None = None
    try:
        if "sinceSeconds" in query:
            since = now - timedelta(seconds=_positive(query, "sinceSeconds"))
        elif query.get("sinceTime"):
            since = parse_rfc3339(query["sinceTime"])
        stream = query.get("stream") or "All"
        if stream not in _STREAMS:
            raise _Refused(
                400, f'stream: Unsupported value: "{stream}": supported values: "All", "Stderr", "Stdout"'
            )
        return LogOptions(
            follow=query.get("follow", "").lower() in ("true", "1"),
            tail_lines=_natural(query, "tailLines"),
            since=since,
            timestamps=query.get("timestamps", "").lower() in ("true", "1"),
            limit_bytes=_positive(query, "limitBytes") if "limitBytes" in query else None,
            stream=stream,
        )
    except (ValueError, OverflowError) as error:
        raise _Refused(400, f"unable to decode query: {error}") from error


def _natural(query: Mapping[str, str], name: str) -> int | None:
    if name not in query or query[name] == "":
        return None
    value = _integer(query[name])
    if value < 0:
        raise ValueError(f"{name} must be greater than or equal to 0")
    return value


def _integer(text: str) -> int:
    value = integer(text)
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"parsing {text[:20]!r}: value out of range")
    return value


def _positive(query: Mapping[str, str], name: str) -> int:
    value = _integer(query[name])
    if value < 1:
        raise ValueError(f"{name} must be greater than 0")
    return value


def _record(kubelet: Kubelet, pod: Pod, container: str, previous: bool) -> ContainerRecord:
    name = pod.metadata.name
    spec = pod.spec
    containers = (*spec.containers, *spec.init_containers, *ephemeral_containers(pod))
    known = {entry.name for entry in containers}
    if container not in known:
        raise _Refused(404, f'container "{container}" not found in pod "{name}"')
    records = sorted(
        (record for record in kubelet.records(pod.metadata.uid) if record.name == container),
        key=lambda record: record.attempt,
        reverse=True,
    )
    if previous:
        past = [record for record in records if record.state is State.EXITED]
        if records and records[0] in past:
            # While the container waits for its next attempt, the attempt that ended last counts as the previous
            # one.
            waiting = _waiting_reason(pod, container) == "CrashLoopBackOff"
            past = past if waiting else past[1:]
        if not past:
            raise _Refused(400, f'previous terminated container "{container}" in pod "{name}" not found')
        return past[0]
    if not records:
        raise _without_record(pod, container)
    return records[0]


def _without_record(pod: Pod, container: str) -> _Refused:
    """Return the error for logs of a container that the runtime does not have (validateContainerLogStatus)."""
    place = f'container "{container}" in pod "{pod.metadata.name}"'
    status = _status(pod, container)
    if status is None:
        return _Refused(400, f"{place} is not available")
    ended = status.state.terminated
    if status.state.running is not None or (ended is not None and ended.container_id):
        # As upstream, the status is 200, because the kubelet has already started its response when the runtime
        # reports this.
        known = ended.container_id if ended is not None else status.container_id
        return _Refused(200, f"unable to retrieve container logs for {known}")
    last = status.last_state.terminated
    if last is not None and last.container_id:
        return _Refused(200, f"unable to retrieve container logs for {last.container_id}")
    if ended is not None or last is not None:
        return _Refused(400, f"{place} is terminated")
    if status.state.waiting is None:
        return _Refused(400, f"{place} is waiting to start - no logs yet")
    reason = status.state.waiting.reason
    return _Refused(400, f"{place} is waiting to start: {_WAITING.get(reason, reason)}")


def _waiting_reason(pod: Pod, container: str) -> str:
    status = _status(pod, container)
    return status.state.waiting.reason if status is not None and status.state.waiting is not None else ""


def _status(pod: Pod, container: str) -> ContainerStatus | None:
    statuses: Sequence[ContainerStatus] = (
        *pod.status.container_statuses,
        *pod.status.init_container_statuses,
        *pod.status.ephemeral_container_statuses,
    )
    return next((status for status in statuses if status.name == container), None)
