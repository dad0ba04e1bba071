"""The operations behind apply, delete and logs, against a running API server."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_kube import objects
from dra_kube.discovery import Discovery
from dra_shared.client.rest import Client, PatchType
from dra_shared.errors import UserError


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with (
        ApiServer(Config(port=0, data=tmp_path, database=IN_MEMORY)) as server,
        Client(server.url, user_agent="test") as made,
    ):
        yield made


def _config_map(**more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, **more}


async def test_apply_reports_the_outcome_for_each_object(client: Client) -> None:
    discovery = await Discovery.read(client)
    outcomes = [
        outcome
        for data in ({"a": "1"}, {"a": "1"}, {"a": "2"})
        for _, outcome in await objects.apply(client, discovery, [_config_map(data=data)], None)
    ]
    assert outcomes == ["created", "unchanged", "configured"]


async def test_apply_names_an_unknown_field(client: Client) -> None:
    discovery = await Discovery.read(client)
    with pytest.raises(UserError, match=r"^configmap/c is refused: \.dta: field not declared in schema$"):
        await objects.apply(client, discovery, [_config_map(dta={"a": "1"})], None)
    # The request in the form of v1beta1.
    request = {"name": "gpu", "deviceClassName": "gpu.nvidia.com"}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [request]}},
    }
    with pytest.raises(
        UserError,
        match=r"^resourceclaim\.resource\.k8s\.io/c is refused: \.spec\.devices\.requests\[0\]\.deviceClassName: ",
    ):
        await objects.apply(client, discovery, [claim], None)


async def test_apply_continues_after_a_rejected_object(client: Client) -> None:
    discovery = await Discovery.read(client)
    wrong, unknown, good = (
        _config_map(dta={"a": "1"}),
        {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}},
        {**_config_map(data={"a": "1"}), "metadata": {"name": "good"}},
    )
    applied: list[str] = []
    with pytest.raises(UserError) as refused:
        await objects.apply(
            client,
            discovery,
            [wrong, unknown, good],
            None,
            report=lambda where, *_: applied.append(where.name),
        )
    first, second = str(refused.value).splitlines()
    assert first == "configmap/c is refused: .dta: field not declared in schema"
    assert "Thing" in second
    assert applied == ["good"]


_PODS = "/api/v1/namespaces/default/pods"


async def _pod(client: Client) -> None:
    spec = {"containers": [{"name": "main", "image": "i"}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    assert (await client.raw("POST", _PODS, content=orjson.dumps(body))).status_code == 201


async def _status(client: Client, **status: Any) -> None:
    content = orjson.dumps({"status": status})
    answer = await client.raw(
        "PATCH", f"{_PODS}/p/status", content=content, content_type=PatchType.MERGE.value
    )
    assert answer.status_code == 200


async def test_logs_wait_for_a_pod_that_starts(client: Client) -> None:
    await _pod(client)
    reading = asyncio.create_task(objects.logs(client, "default", "p", None, {}))
    for phase, state in (("Pending", "waiting"), ("Pending", "running")):
        done, _ = await asyncio.wait((reading,), timeout=0.2)
        assert not done
        container = {"name": "main", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
        await _status(client, phase=phase, containerStatuses=[{**container, "state": {state: {}}}])
    await asyncio.wait_for(reading, 60)


async def test_logs_wait_for_a_pod_that_was_briefly_unschedulable(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "_UNSCHEDULABLE_SECONDS", 60.0)
    await _pod(client)
    condition = {"type": "PodScheduled", "reason": "Unschedulable"}
    await _status(client, conditions=[{**condition, "status": "False"}])
    reading = asyncio.create_task(objects.logs(client, "default", "p", None, {}))
    await asyncio.wait((reading,), timeout=0.2)
    await _status(client, phase="Running", conditions=[{**condition, "status": "True"}])
    await asyncio.wait_for(reading, 60)


async def test_a_pod_without_a_node_has_no_log(client: Client) -> None:
    await _pod(client)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    await _status(client, conditions=[condition])
    with pytest.raises(
        UserError, match=r"^pod default/p has no node; `dralab explain pod/p -n default` says why$"
    ):
        await asyncio.wait_for(objects.logs(client, "default", "p", None, {}), 60)


async def test_applying_a_repeated_variable_warns_and_keeps_the_last_value(client: Client) -> None:
    variables = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    container = {"name": "c", "image": "i", "env": variables}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [container], "nodeSelector": {"beta.kubernetes.io/os": "linux"}},
    }
    discovery = await Discovery.read(client)
    for outcome in ("created", "unchanged"):
        warnings: list[str] = []
        (applied,) = await objects.apply(client, discovery, [pod], None, warn=warnings.append)
        assert applied[1] == outcome
        hides = 'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply'
        # The server's own warning comes with it.
        deprecated = (
            'spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead'
        )
        assert warnings[:1] == [hides]
        assert outcome == "unchanged" or warnings[1:] == [deprecated]
    stored = (await client.raw("GET", "/api/v1/namespaces/default/pods/p")).json()
    assert stored["spec"]["containers"][0]["env"] == variables[1:]
