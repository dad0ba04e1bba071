"""The objects that the driver's chart installs besides DeviceClasses: kinds, namespace, service account."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from dra_shared.client.errors import from_response
from dra_shared.client.rest import Client
from dra_shared.yamltext import load_all

from dra_node_agent.drivers.nvidia.computedomain import api

_CRDS = Path(__file__).parent / "manifests" / "crds.yaml"


async def install(client: Client, namespace: str, *, host_managed: bool = False) -> None:
    """Create the objects that do not exist. Existing ones are not changed. Without daemons, no account is created.

    Raises:
        ApiError: the API server rejects an object.
    """
    for path, body in _objects(namespace, host_managed):
        response = await client.raw("POST", path, content=msgspec.json.encode(body))
        if response.status_code not in (201, 409):
            raise from_response(response.status_code, response.content)


def _objects(namespace: str, host_managed: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    for document in load_all(_CRDS.read_bytes()):
        yield "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", document.value
    yield (
        "/api/v1/namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
    )
    if host_managed:
        return
    yield (
        f"/api/v1/namespaces/{namespace}/serviceaccounts",
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": api.SERVICE_ACCOUNT}},
    )
