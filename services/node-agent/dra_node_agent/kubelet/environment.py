"""A container's environment, from its env and envFrom (pkg/kubelet/kubelet_pods.go, makeEnvironmentVariables)."""

import base64
import re
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec
from dra_shared.api.container import Container, EnvFromSource, EnvVarSource
from dra_shared.api.core import ConfigMap
from dra_shared.api.pod import Pod
from dra_shared.api.resources import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS
from dra_shared.api.volume import ObjectFieldSelector, ResourceFieldSelector
from dra_shared.client.errors import NotFound
from dra_shared.client.rest import Client
from dra_shared.client.store import Store
from dra_shared.quantity import Quantity

_REFERENCE = re.compile(r"\$(\$|\(([A-Za-z_.-][A-Za-z0-9_.-]*)\))")
_TOKEN_SECONDS = 3600
_SUBSCRIPT = re.compile(r"(.+)\['(.*)'\]")


class ConfigError(Exception):
    """The container's configuration refers to a missing object (CreateContainerConfigError)."""


class Sources(Protocol):
    """The source of configuration: the data of config maps and secrets, or None if one does not exist."""

    async def config_map(self, namespace: str, name: str) -> Mapping[str, bytes] | None: ...

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None: ...


class ApiSources:
    """Config maps and secrets from the API server.

    ``known`` has common config maps by ``namespace/name``. These are not requested from the API server.
    """

    def __init__(self, client: Client, known: Store[ConfigMap] | None = None) -> None:
        self._client = client
        self._known = known if known is not None else Store()

    async def config_map(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        found = self._known.get(f"{namespace}/{name}")
        if found is None:
            try:
                found = await self._client.get(CONFIG_MAPS, name, namespace)
            except NotFound:
                return None
        data = {key: value.encode() for key, value in found.data.items()}
        data.update((key, base64.b64decode(value)) for key, value in found.binary_data.items())
        return data

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        try:
            found = await self._client.get(SECRETS, name, namespace)
        except NotFound:
            return None
        return {key: base64.b64decode(value) for key, value in found.data.items()}

    async def token(self, pod: Pod, audience: str, seconds: int | None) -> bytes:
        """Return a token of the pod's service account that is valid while the pod exists.

        Raises:
            ConfigError: the account does not exist.
        """
        meta = pod.metadata
        bound = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid}
        spec: dict[str, Any] = {"expirationSeconds": seconds or _TOKEN_SECONDS, "boundObjectRef": bound}
        if audience:
            spec["audiences"] = [audience]
        wanted = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": spec}
        name = pod.spec.service_account_name or "default"
        try:
            answer = await self._client.create_subresource(
                SERVICE_ACCOUNTS, name, "token", wanted, meta.namespace
            )
        except NotFound as error:
            raise ConfigError(f"failed to fetch token: {error}") from error
        token: str = msgspec.json.decode(answer)["status"]["token"]
        return token.encode()


def expand(text: str, env: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` by its value. ``$$`` is a dollar sign, and unknown names are kept."""

    def value(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return env.get(match[2], match[0])

    return _REFERENCE.sub(value, text)


async def environment(
    pod: Pod, container: Container, sources: Sources, pod_ip: str, host_ip: str, node_name: str
) -> dict[str, str]:
    """Return the variables in the order in which they are set.

    Raises:
        ConfigError: a config map, secret, key or field is missing and not optional.
    """
    result: dict[str, str] = {}
    for source in container.env_from:
        result.update(await _all_of(pod, source, sources))
    for entry in container.env:
        if entry.value_from is None:
            result[entry.name] = expand(entry.value, result)
        else:
            found = await _value_from(pod, container, entry.value_from, sources, pod_ip, host_ip, node_name)
            if found is not None:
                result[entry.name] = found
    return result


async def _all_of(pod: Pod, source: EnvFromSource, sources: Sources) -> dict[str, str]:
    namespace = pod.metadata.namespace
    data: Mapping[str, bytes] | None = None
    if source.config_map_ref is not None:
        ref = source.config_map_ref
        data = await sources.config_map(namespace, ref.name)
        if data is None and not ref.optional:
            raise ConfigError(f'configmap "{ref.name}" not found')
    elif source.secret_ref is not None:
        secret = source.secret_ref
        data = await sources.secret(namespace, secret.name)
        if data is None and not secret.optional:
            raise ConfigError(f'secret "{secret.name}" not found')
    return {source.prefix + key: value.decode(errors="replace") for key, value in (data or {}).items()}


async def _value_from(
    pod: Pod,
    container: Container,
    source: EnvVarSource,
    sources: Sources,
    pod_ip: str,
    host_ip: str,
    node_name: str,
) -> str | None:
    namespace = pod.metadata.namespace
    if source.field_ref is not None:
        return field_value(pod, source.field_ref, pod_ip, host_ip, node_name)
    if source.resource_field_ref is not None:
        return resource_value(pod, container, source.resource_field_ref)
    if source.config_map_key_ref is not None:
        key = source.config_map_key_ref
        kind, data = "ConfigMap", await sources.config_map(namespace, key.name)
        name, wanted, optional = key.name, key.key, key.optional
    elif source.secret_key_ref is not None:
        secret = source.secret_key_ref
        kind, data = "Secret", await sources.secret(namespace, secret.name)
        name, wanted, optional = secret.name, secret.key, secret.optional
    else:
        return None
    if data is None:
        if optional:
            return None
        raise ConfigError(f'{kind.lower()} "{name}" not found')
    if wanted not in data:
        if optional:
            return None
        raise ConfigError(f"couldn't find key {wanted} in {kind} {namespace}/{name}")
    return data[wanted].decode(errors="replace")


def field_value(pod: Pod, ref: ObjectFieldSelector, pod_ip: str, host_ip: str, node_name: str) -> str:
    """Return the value of a pod's field for the downward API.

    Raises:
        ConfigError: the field does not exist.
    """
    meta = pod.metadata
    match = _SUBSCRIPT.fullmatch(ref.field_path)
    if match is not None:
        maps = {"metadata.labels": meta.labels, "metadata.annotations": meta.annotations}
        if match[1] in maps:
            return maps[match[1]].get(match[2], "")
    simple = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
        "spec.nodeName": pod.spec.node_name or node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
        "status.podIP": pod_ip,
        "status.podIPs": pod_ip,
        "status.hostIP": host_ip,
        "status.hostIPs": host_ip,
    }
    if ref.field_path in simple:
        return simple[ref.field_path]
    for path, values in (("metadata.labels", meta.labels), ("metadata.annotations", meta.annotations)):
        if ref.field_path == path:
            return "\n".join(f'{key}="{value}"' for key, value in sorted(values.items()))
    raise ConfigError(f"unsupported fieldPath: {ref.field_path}")


def resource_value(pod: Pod, container: Container, ref: ResourceFieldSelector) -> str:
    """Return a request or limit of a container in units of the divisor, rounded up. 0 if there is none.

    Raises:
        ConfigError: the container or resource does not exist.
    """
    if ref.container_name and ref.container_name != container.name:
        everything = (*pod.spec.init_containers, *pod.spec.containers)
        named = next((entry for entry in everything if entry.name == ref.container_name), None)
        if named is None:
            raise ConfigError(f"container {ref.container_name} not found")
        container = named
    kind, _, name = ref.resource.partition(".")
    values = {"limits": container.resources.limits, "requests": container.resources.requests}.get(kind)
    if values is None:
        raise ConfigError(f"unsupported container resource : {ref.resource}")
    amount = Quantity.parse(values.get(name, "0"))
    divisor = Quantity.parse(ref.divisor or "1")
    if divisor.is_zero():
        divisor = Quantity.parse("1")
    if name == "cpu":
        return str(-(-amount.milli_value() // divisor.milli_value()))
    return str(-(-amount.value() // divisor.value()))
