"""The definitions of the kinds, and their installation.

``tools/jobkinds`` makes the file from the operators' own definitions. The operators' webhooks set more defaults; here
the schemas have them.
"""

import functools
import json
from collections.abc import Awaitable, Collection, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
from dra_shared.client.errors import ApiError, Invalid, from_response
from dra_shared.client.rest import Client
from dra_shared.clock import Clock
from dra_shared.jsontypes import JsonObject
from dra_shared.log import logger

from dra_controller.jobkinds.operators import CLUSTER_TRAINING_RUNTIMES

_FILE = Path(__file__).with_name("definitions.json")
_RUNTIMES = Path(__file__).parent / "trainer" / "runtimes.json"
_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_RETRY_SECONDS = 0.2
_JOB = "spec.replicatedJobs[].template.spec"
# For each kind, the defaults that its webhook sets: fields with their values.
_DEFAULTS: dict[str, dict[str, Any]] = {
    # pkg/webhooks/jobset_webhook.go
    "JobSet": {
        "spec.successPolicy": {"operator": "All"},
        "spec.startupPolicy": {"startupPolicyOrder": "AnyOrder"},
        "spec.network": {},
        "spec.network.enableDNSHostnames": True,
        "spec.network.publishNotReadyAddresses": True,
        f"{_JOB}.completionMode": "Indexed",
        f"{_JOB}.template.spec.restartPolicy": "OnFailure",
    },
    # pkg/webhooks/leaderworkerset_webhook.go
    "LeaderWorkerSet": {
        "spec.rolloutStrategy": {"type": "RollingUpdate"},
        "spec.rolloutStrategy.rollingUpdateConfiguration": {},
        "spec.networkConfig": {"subdomainPolicy": "Shared"},
    },
}
# By kind, required fields that its webhook fills in with values that a schema cannot give, as the controllers do here.
_OPTIONAL = {"JobSet": ("spec.failurePolicy.rules[].name",)}

_log = logger(__name__)


@functools.cache
def _content() -> Any:
    return json.loads(_FILE.read_bytes())


def read_definitions(operator: str) -> Iterator[JsonObject]:
    """Yield the definitions of the operator's kinds."""
    content = _content()
    for folded in content["operators"][operator]:
        definition = _unfold(folded, content["shared"])
        kind = definition["spec"]["names"]["kind"]
        for version in definition["spec"]["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            for path, value in _DEFAULTS.get(kind, {}).items():
                _field(schema, path)["default"] = value
            for path in _OPTIONAL.get(kind, ()):
                owner, _, name = path.rpartition(".")
                _field(schema, owner)["required"].remove(name)
        yield definition


def _unfold(value: Any, shared: list[Any]) -> Any:
    if isinstance(value, list):
        return [_unfold(part, shared) for part in value]
    if not isinstance(value, dict):
        return value
    if "$" in value:
        return _unfold(shared[value["$"]], shared)
    return {key: _unfold(part, shared) for key, part in value.items()}


def _field(schema: JsonObject, path: str) -> JsonObject:
    """Return the schema of the field. In a path, ``[]`` stands for the items of a list."""
    for name in path.split("."):
        schema = schema["properties"][name.removesuffix("[]")]
        if name.endswith("[]"):
            schema = schema["items"]
    return schema


async def install(client: Client, operators: Collection[str], clock: Clock) -> None:
    """Create the definitions that do not exist, and wait until their kinds are served. Existing ones are kept.

    The training runtimes of kubeflow/trainer come with its kinds.

    Retries until the API server can be reached.

    Raises:
        Invalid: the API server is of a version that rejects a definition.
    """
    for operator in sorted(operators):
        for definition in read_definitions(operator):
            while not await _try(_define(client, definition), operator):
                await clock.sleep(_RETRY_SECONDS)
    if "trainer" in operators:
        for runtime in json.loads(_RUNTIMES.read_bytes()):
            while not await _try(_create_runtime(client, runtime), "trainer"):
                await clock.sleep(_RETRY_SECONDS)


async def _try(step: Awaitable[bool], operator: str) -> bool:
    try:
        return await step
    except Invalid:
        raise
    except (ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
        _log.info("a kind cannot be defined, trying again", operator=operator, error=str(error))
    return False


async def _create_runtime(client: Client, body: JsonObject) -> bool:
    """Create the training runtime unless it exists."""
    resource = CLUSTER_TRAINING_RUNTIMES
    whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
    response = await client.raw("POST", resource.path(), content=msgspec.json.encode(whole))
    if response.status_code not in (201, 409):
        raise from_response(response.status_code, response.content)
    return True


async def _define(client: Client, definition: JsonObject) -> bool:
    """Create the definition unless it exists. Return True if its kind is served."""
    spec = definition["spec"]
    version = next(one["name"] for one in spec["versions"] if one["storage"])
    kind = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
    if (await client.raw("GET", kind, params={"limit": "1"})).status_code == 200:
        return True
    response = await client.raw("POST", _PATH, content=msgspec.json.encode(definition))
    if response.status_code not in (201, 409):
        raise from_response(response.status_code, response.content)
    return False
