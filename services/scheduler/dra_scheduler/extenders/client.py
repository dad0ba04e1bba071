"""One extender and its requests.

Mirrors ``HTTPExtender`` in upstream's ``pkg/scheduler/extender.go``. The bodies are those of
``k8s.io/kube-scheduler/extender/v1``, whose fields have Go's names.
"""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import msgspec
from dra_shared.api.pod import Pod
from dra_shared.client.kubeconfig import load_chain
from dra_shared.client.transport import HttpTransport
from dra_shared.jsontypes import JsonObject
from dra_shared.quoting import go_quote

from dra_scheduler.componentconfig.extenders import certificates
from dra_scheduler.componentconfig.types import Extender
from dra_scheduler.extenders import answers
from dra_scheduler.framework.nodeinfo import NodeInfo


def tls_context(extender: Extender) -> ssl.SSLContext:
    """Build the TLS context from the extender's configuration.

    Raises:
        OSError: a certificate cannot be read or is invalid.
    """
    found = certificates(extender)
    context = ssl.create_default_context(cadata=found.authority.decode() if found.authority else None)
    if found.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if found.certificate and found.key:
        load_chain(context, (found.certificate, found.key))
    return context


_DEFAULT_TIMEOUT = 5.0
_TOO_LATE = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"


class ExtenderError(Exception):
    """The extender did not answer or reported a problem."""


@dataclass(frozen=True, slots=True)
class Filtered:
    """The nodes that an extender accepts, and the reasons against others.

    ``unresolvable`` are nodes on which evicting pods does not help.
    """

    names: Sequence[str]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods that would be evicted from a node, and the number that violate a disruption budget."""

    pods: Sequence[Pod]
    violations: int


class HTTPExtender:
    """The extender that a KubeSchedulerConfiguration describes."""

    def __init__(self, config: Extender) -> None:
        self._config = config
        self._managed = {resource.name for resource in config.managed_resources or ()}
        self._client: httpx.AsyncClient | None = None

    @property
    def name(self) -> str:
        """The prefix of its URLs."""
        return self._config.url_prefix

    @property
    def ignorable(self) -> bool:
        """True if pods are scheduled without it while it fails."""
        return self._config.ignorable

    @property
    def filters(self) -> bool:
        """True if it filters nodes."""
        return bool(self._config.filter_verb)

    @property
    def prioritizes(self) -> bool:
        """True if it scores nodes."""
        return bool(self._config.prioritize_verb)

    @property
    def binds(self) -> bool:
        """True if it binds pods."""
        return bool(self._config.bind_verb)

    @property
    def preempts(self) -> bool:
        """True if it takes part in choosing preemption victims."""
        return bool(self._config.preempt_verb)

    def is_interested_in(self, pod: Pod) -> bool:
        """True if a container requests a resource that it manages, or if it manages none."""
        if not self._managed:
            return True
        return any(
            not self._managed.isdisjoint((*container.resources.requests, *container.resources.limits))
            for container in (*pod.spec.containers, *pod.spec.init_containers)
        )

    async def filter(self, pod: Pod, nodes: Sequence[NodeInfo]) -> Filtered:
        """Return the nodes that the extender accepts.

        Raises:
            ExtenderError: it did not answer, or the answer is invalid.
        """
        config = self._config
        answer = await self._send(config.filter_verb, self._arguments(pod, nodes), answers.FILTER)
        if problem := answer.get("Error"):
            raise ExtenderError(problem)
        names: Sequence[str] = ()
        if config.node_cache_capable and "NodeNames" in answer:
            names = answer["NodeNames"]
            known = {node.name for node in nodes}
            for name in names:
                if name not in known:
                    raise ExtenderError(
                        f"extender {go_quote(self.name)} claims a filtered node {go_quote(name)} which is not found "
                        "in the input node list"
                    )
        elif "Nodes" in answer:
            found = answer["Nodes"].get("items", ())
            names = [node.get("metadata", {}).get("name", "") for node in found]
        return Filtered(names, answer.get("FailedNodes", {}), answer.get("FailedAndUnresolvableNodes", {}))

    async def prioritize(self, pod: Pod, nodes: Sequence[NodeInfo]) -> dict[str, int]:
        """Return a score for each node, multiplied by the extender's weight.

        Raises:
            ExtenderError: it did not answer, or the answer is invalid.
        """
        arguments = self._arguments(pod, nodes)
        scores: dict[str, int] = {}
        for entry in await self._send(self._config.prioritize_verb, arguments, answers.PRIORITIES):
            name = entry.get("Host", "")
            scores[name] = scores.get(name, 0) + entry.get("Score", 0) * self._config.weight
        return scores

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Let the extender bind the pod.

        Raises:
            ExtenderError: it failed.
        """
        meta = pod.metadata
        arguments = {
            "PodName": meta.name,
            "PodNamespace": meta.namespace,
            "PodUID": meta.uid,
            "Node": node_name,
        }
        answer = await self._send(self._config.bind_verb, arguments, answers.BINDING)
        if problem := answer.get("Error"):
            raise ExtenderError(problem)

    async def preempt(
        self, pod: Pod, victims: Mapping[str, Victims], nodes: Mapping[str, NodeInfo]
    ) -> dict[str, Victims]:
        """Return the nodes that may be freed for the pod, with their victims.

        Raises:
            ExtenderError: it did not answer, or named a node or pod that does not exist.
        """
        arguments: JsonObject = {"Pod": msgspec.to_builtins(pod)}
        if self._config.node_cache_capable:
            arguments["NodeNameToVictims"] = None
            arguments["NodeNameToMetaVictims"] = {
                name: {
                    "Pods": [{"UID": victim.metadata.uid} for victim in found.pods],
                    "NumPDBViolations": found.violations,
                }
                for name, found in victims.items()
            }
        else:
            arguments["NodeNameToVictims"] = {
                name: {"Pods": msgspec.to_builtins(found.pods), "NumPDBViolations": found.violations}
                for name, found in victims.items()
            }
            arguments["NodeNameToMetaVictims"] = None
        answer = await self._send(self._config.preempt_verb, arguments, answers.PREEMPTION)
        chosen = answer.get("NodeNameToMetaVictims", {})
        return {name: self._victims(name, found, nodes) for name, found in chosen.items()}

    def _victims(self, name: str, found: JsonObject, nodes: Mapping[str, NodeInfo]) -> Victims:
        node = nodes.get(name)
        if node is None:
            raise ExtenderError(f"nodeinfo not found for node name {go_quote(name)}")
        pods = []
        for entry in found.get("Pods", ()):
            uid = entry.get("UID", "")
            if uid not in node.pods:
                raise ExtenderError(
                    f"extender: {self.name} claims to preempt pod (UID: &{{{uid}}}) on node: {name}, but the pod is "
                    "not found on that node"
                )
            pods.append(node.pods[uid])
        return Victims(pods, found.get("NumPDBViolations", 0))

    def _arguments(self, pod: Pod, nodes: Sequence[NodeInfo]) -> JsonObject:
        """Build ExtenderArgs with node names if the extender caches nodes, or else with the nodes themselves."""
        arguments: JsonObject = {"Pod": msgspec.to_builtins(pod), "Nodes": None, "NodeNames": None}
        if self._config.node_cache_capable:
            arguments["NodeNames"] = [node.name for node in nodes]
        else:
            items = [msgspec.to_builtins(node.node) for node in nodes]
            arguments["Nodes"] = {"metadata": {}, "items": items}
        return arguments

    async def _send(self, action: str, arguments: JsonObject, kind: answers.Type) -> Any:
        """Send a POST and decode the answer as this type."""
        url = f"{self._config.url_prefix.rstrip('/')}/{action}"
        body = msgspec.json.encode(arguments)
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._connect().post(
                    url, content=body, headers={"Content-Type": "application/json"}
                )
        except (httpx.TimeoutException, TimeoutError) as problem:
            raise ExtenderError(f"Post {go_quote(url)}: {_TOO_LATE}") from problem
        except (httpx.HTTPError, OSError) as problem:
            raise ExtenderError(f"Post {go_quote(url)}: {_cause(problem, url)}") from problem
        if response.status_code != httpx.codes.OK:
            raise ExtenderError(f"failed {action} with extender at URL {url}, code {response.status_code}")
        try:
            return answers.read(kind, msgspec.json.decode(response.content))
        except (msgspec.DecodeError, answers.AnswerError, RecursionError) as problem:
            raise ExtenderError(str(problem)) from problem

    @property
    def _timeout(self) -> float:
        return self._config.http_timeout.seconds or _DEFAULT_TIMEOUT

    def _connect(self) -> httpx.AsyncClient:
        if self._client is None:
            tls = self._config.tls_config
            transport = HttpTransport(
                ssl_context=tls_context(self._config),
                server_name=(tls.server_name or None) if tls is not None else None,
                connect_timeout=self._timeout,
            )
            self._client = httpx.AsyncClient(transport=transport)
        return self._client

    async def aclose(self) -> None:
        """Close its connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None


def _cause(problem: BaseException, url: str) -> str:
    found: BaseException | None = problem
    while found is not None:
        if isinstance(found, ConnectionRefusedError):
            return f"dial tcp {httpx.URL(url).netloc.decode()}: connect: connection refused"
        found = found.__cause__
    return str(problem) or type(problem).__name__
