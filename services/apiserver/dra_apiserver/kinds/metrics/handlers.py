"""Serve metrics.k8s.io: the selected nodes and pods whose usage is known."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from dra_shared.clock import rfc3339
from dra_shared.jsontext import dumps
from dra_shared.jsontypes import JsonObject
from dra_shared.log import logger

from dra_apiserver.api import Api, Routes
from dra_apiserver.errors import GroupResource, StatusError, method_not_allowed, not_found
from dra_apiserver.handlers.options import list_options
from dra_apiserver.http import Request
from dra_apiserver.kinds.connect.locations import NODE_HEADER
from dra_apiserver.kinds.connect.logs import node_address
from dra_apiserver.kinds.metrics.kinds import GROUP, KINDS, VERSION
from dra_apiserver.kinds.metrics.samples import Sample, Use, node_use, parse, pod_use, window_text
from dra_apiserver.kinds.metrics.scraper import Pair, Scraper
from dra_apiserver.storage import Record, Resource
from dra_apiserver.target import Target
from dra_apiserver.watch import Selection

_TIMEOUT = 10.0
_log = logger(__name__)


class Kubelets:
    """The kubelets of the nodes in the store."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def sample(self, node: str) -> Sample | None:
        """Return a sample from the node's kubelet; None if it can't be reached, or its response is invalid."""
        import httpx

        api = self._api
        try:
            host, port = node_address(api, node)
            access = api.config.nodes
            headers = [(NODE_HEADER, node.encode()), *access.headers]
            url = f"{access.scheme}://{f'[{host}]' if ':' in host else host}:{port}/metrics/resource"
            # Without TLS, no certificates need to be loaded or verified.
            verify = access.context() or False
            async with httpx.AsyncClient(timeout=_TIMEOUT, trust_env=False, verify=verify) as client:
                answer = await client.get(url, headers=headers)
                answer.raise_for_status()
            work = functools.partial(parse, answer.text, api.clock.now().timestamp())
            return await api.offload.run(work)
        except (StatusError, httpx.HTTPError, OSError, ValueError) as error:
            _log.info("no resource metrics of a node", node=node, error=str(error) or type(error).__name__)
            return None


_NODES: Resource = ("", "nodes")
_PODS: Resource = ("", "pods")


def serve(api: Api) -> None:
    """Serve the kinds of metrics.k8s.io."""
    handlers = _Handlers(Scraper(api.clock, Kubelets(api).sample))
    api.routes |= {
        (GROUP, "nodes"): Routes({"GET": ("list", handlers.list_nodes)}, {"GET": ("get", handlers.get_node)}),
        (GROUP, "pods"): Routes({"GET": ("list", handlers.list_pods)}, {"GET": ("get", handlers.get_pod)}),
    }
    for kind in KINDS:
        api.registry.add(kind)


class _Handlers:
    def __init__(self, scraper: Scraper) -> None:
        self._scraper = scraper

    async def list_nodes(self, api: Api, request: Request, target: Target) -> None:
        await _respond(api, request, target, await self._nodes(api, _select(api, request, target, _NODES)))

    async def list_pods(self, api: Api, request: Request, target: Target) -> None:
        await _respond(api, request, target, await self._pods(api, _select(api, request, target, _PODS)))

    async def get_node(self, api: Api, request: Request, target: Target) -> None:
        record = api.store.get(_NODES, target.key)
        if record is None:
            # metrics-server's lister uses this name.
            raise not_found(GroupResource("", "node"), target.name)
        await _respond_one(api, request, target, await self._nodes(api, [record]), target.name)

    async def get_pod(self, api: Api, request: Request, target: Target) -> None:
        record = api.store.get(_PODS, target.key)
        if record is None:
            raise not_found(GroupResource(*_PODS), target.name)
        name = f"{target.namespace}/{target.name}"
        await _respond_one(api, request, target, await self._pods(api, [record]), name)

    async def _nodes(self, api: Api, records: Sequence[Record]) -> list[JsonObject]:
        pairs = await self._scraper.pairs(record.key for record in records)
        made = []
        for record in records:
            pair = pairs.get(record.key)
            use = None if pair is None else node_use(pair.last, pair.before)
            if use is not None:
                made.append(_metrics(api, "NodeMetrics", record, use, {"usage": use.resources()}))
        return made

    async def _pods(self, api: Api, records: Sequence[Record]) -> list[JsonObject]:
        placed = [(record, (record.object().get("spec") or {}).get("nodeName")) for record in records]
        pairs = await self._scraper.pairs(node for _, node in placed if node)
        made = []
        for record, node in placed:
            uses = _uses(pairs.get(node or ""), record)
            if uses:
                containers = [{"name": name, "usage": use.resources()} for name, use in sorted(uses.items())]
                earliest = min(uses.values(), key=lambda use: use.at)
                made.append(_metrics(api, "PodMetrics", record, earliest, {"containers": containers}))
        return made


def _uses(pair: Pair | None, record: Record) -> Mapping[str, Use] | None:
    namespace, _, name = record.key.partition("/")
    return None if pair is None else pod_use(pair.last, pair.before, namespace, name)


def _select(api: Api, request: Request, target: Target, resource: Resource) -> list[Record]:
    if request.flag("watch"):
        raise method_not_allowed()
    options = list_options(request, target.kind, watch=False, version=target.version)
    selection = Selection(target.kind, target.namespace, options.labels, options.fields)
    collection = api.store.collection(resource)
    return selection.filter([collection.records[key] for key in collection.range(selection.prefix)])


def _metrics(api: Api, kind: str, record: Record, use: Use, measured: JsonObject) -> JsonObject:
    source = record.object()["metadata"]
    metadata = {name: source[name] for name in ("name", "namespace") if name in source}
    metadata["creationTimestamp"] = api.now()
    if source.get("labels"):
        metadata["labels"] = source["labels"]
    return {
        "kind": kind,
        "apiVersion": f"{GROUP}/{VERSION}",
        "metadata": metadata,
        "timestamp": rfc3339(use.at),
        "window": window_text(use.window),
        **measured,
    }


async def _respond(api: Api, request: Request, target: Target, objects: Sequence[JsonObject]) -> None:
    presenter = api.presenter(target, request)
    records = [Record(obj["metadata"]["name"], 0, dumps(obj)) for obj in objects]
    await request.respond(200, presenter.listing(records, {}), presenter.accepted.media_type)


async def _respond_one(
    api: Api, request: Request, target: Target, objects: Sequence[JsonObject], name: str
) -> None:
    presenter = api.presenter(target, request)
    if not objects:
        raise not_found(target.qualified_resource, name)
    await request.respond(200, presenter.one(dumps(objects[0])), presenter.accepted.media_type)
