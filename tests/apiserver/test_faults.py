"""Test faults: which clients they affect, how requests of these clients fail, and that faults end by themselves."""

import asyncio
from typing import Any

import httpx
import orjson
import pytest
from dra_apiserver.config import Config
from dra_apiserver.errors import GroupResource, StatusError
from dra_apiserver.faults import Fault, Faults
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.clock import FakeClock
from dra_shared.faults.catalog import KINDS

from tests.support.agentfaults import Strikes
from tests.support.cases import each_case
from tests.support.waiting import until

CLAIMS = GroupResource("resource.k8s.io", "resourceclaims")
PODS = GroupResource("", "pods")
MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = {"Content-Type": "application/merge-patch+json"}


def _fault(**fields: Any) -> Fault:
    fault: Fault = KINDS[fields["fault"]].spec(**fields)
    return fault


def _faults(*begun: Fault) -> tuple[Faults, FakeClock]:
    clock = FakeClock()
    faults = Faults(clock, lambda: 0)
    for one in begun:
        faults.begin(one)
    return faults, clock


async def _code(faults: Faults, verb: str, resource: GroupResource, agent: str = "") -> int:
    try:
        await faults.meet(verb, resource, "x", agent)
    except StatusError as error:
        return error.code
    return 200


async def test_a_fault_affects_its_targets_until_it_ends() -> None:
    wanted = _fault(
        fault="error",
        seconds=10,
        code=503,
        verbs=("get",),
        resources=("resourceclaims",),
        agents=("kubelet",),
    )
    faults, clock = _faults(wanted)
    assert await _code(faults, "get", CLAIMS, "kubelet/v1.36") == 503
    assert await _code(faults, "get", CLAIMS, "kube-scheduler") == 200
    assert await _code(faults, "get", PODS, "kubelet/v1.36") == 200
    assert await _code(faults, "list", CLAIMS, "kubelet/v1.36") == 200
    (active,) = faults.list()
    assert (active.left, active.met) == (10, 1)
    await clock.advance(10)
    assert await _code(faults, "get", CLAIMS, "kubelet/v1.36") == 200
    assert not faults.active


async def test_a_resource_may_be_named_with_its_group() -> None:
    faults, _ = _faults(_fault(fault="error", seconds=1, resources=("resourceclaims.resource.k8s.io",)))
    assert await _code(faults, "get", CLAIMS) == 500
    assert await _code(faults, "get", PODS) == 200


async def test_a_fault_selects_services_by_user_agent_and_spares_observers() -> None:
    faults, _ = _faults(_fault(fault="error", seconds=1, service="scheduler"))
    assert await _code(faults, "get", PODS, "kube-scheduler/v1.37 dralab-scheduler") == 500
    assert await _code(faults, "get", PODS, "dralab-node-agent") == 200
    faults, _ = _faults(_fault(fault="error", seconds=1))
    assert await _code(faults, "get", PODS, "dralab-fault") == 200
    assert await _code(faults, "get", PODS, "kubectl") == 500


async def test_conflict_faults_affect_updates_and_patches() -> None:
    faults, _ = _faults(_fault(fault="conflict", seconds=10))
    verbs = ("create", "update", "patch", "delete", "get")
    assert [await _code(faults, verb, CLAIMS) for verb in verbs] == [200, 409, 409, 200, 200]


async def test_latency_lasts_no_longer_than_the_fault() -> None:
    faults, clock = _faults(_fault(fault="latency", seconds=3, delay=2))
    await clock.advance(2)
    waiting = asyncio.create_task(faults.meet("get", PODS, "x", ""))
    await clock.advance(0.9)
    assert not waiting.done()
    await clock.advance(0.1)
    assert waiting.done()


async def test_a_fault_with_the_same_seed_affects_the_same_requests() -> None:
    async def draw_codes(seed: int) -> list[int]:
        faults, _ = _faults(_fault(fault="error", seconds=1, share=0.5, seed=seed))
        return [await _code(faults, "get", PODS) for _ in range(50)]

    assert await draw_codes(7) == await draw_codes(7) != await draw_codes(8)
    assert set(await draw_codes(7)) == {200, 500}


async def test_watches_are_cut_repeatedly() -> None:
    clock, cuts = FakeClock(), 0

    def cut() -> int:
        nonlocal cuts
        cuts += 1
        return 2

    faults = Faults(clock, cut)
    faults.begin(_fault(fault="watch-cut", seconds=5, delay=2))
    await clock.advance(4.5)
    assert (cuts, faults.list()[0].met) == (3, 6)
    await clock.advance(10)
    assert cuts == 3
    faults.begin(_fault(fault="watch-cut", seconds=5, delay=2))
    faults.clear()
    await clock.advance(10)
    assert cuts == 3


async def test_watches_are_delayed_repeatedly() -> None:
    clock = FakeClock()
    held: list[bool] = []

    def hold(wanted: bool) -> int:
        held.append(wanted)
        return 3

    faults = Faults(clock, lambda: 0, hold)
    faults.begin(_fault(fault="watch-behind", seconds=5, delay=2))
    await clock.advance(1.5)
    assert held == [True]
    await clock.advance(1)
    assert held == [True, False, True]
    assert faults.list()[0].met == 6
    await clock.advance(10)
    assert held[-1] is False
    faults.begin(_fault(fault="watch-behind", seconds=5, delay=2))
    await clock.advance(0.5)
    faults.clear()
    await clock.advance(0.1)
    assert held[-1] is False


@each_case(
    ("wanted", "message"),
    [
        ({"fault": "error"}, "seconds: error needs them, above 0 and at most 3600"),
        ({"fault": "error", "seconds": 0}, "seconds: must be above 0 and at most 3600"),
        ({"fault": "error", "seconds": 9999}, "seconds: must be above 0 and at most 3600"),
        ({"fault": "latency", "seconds": 1, "delay": 2}, "delay: must be above 0 and at most seconds"),
        ({"fault": "error", "seconds": 1, "share": 2}, "share: must be above 0 and at most 1"),
        ({"fault": "error", "seconds": 1, "code": 418}, "Invalid enum value 418 - at `$.code`"),
        ({"fault": "flood", "seconds": 1}, "there is no fault 'flood': choose latency, error, "),
        ({"fault": "error", "seconds": 1, "verb": "get"}, "unknown field `verb`"),
        ({"fault": "error", "seconds": None}, "cannot read the fault"),
        (
            {"fault": "loss", "seconds": 1, "service": "kubelet"},
            "there is no service 'kubelet': choose sched",
        ),
        ({"fault": "error", "seconds": 1, "verbs": ["gett"]}, "there is no verb 'gett': choose get, list, "),
        ({"fault": "error", "seconds": 1, "resources": ["podz"]}, "there is no resource 'podz'"),
        (
            {"fault": "watch-cut", "seconds": 1, "share": 1},
            "unknown field `share`: watch-cut takes seconds, d",
        ),
        (
            {"fault": "kill", "seconds": 1},
            "no supervisor is known: --supervisor-url names it",
        ),
    ],
)
async def test_an_invalid_fault_is_rejected(
    client: httpx.AsyncClient, wanted: dict[str, Any], message: str
) -> None:
    answer = await client.post("/faults", json=wanted)
    assert answer.status_code == 400
    assert message in answer.json()["message"]
    assert (await client.get("/faults")).json() == {"items": []}


async def test_a_fault_reports_which_of_its_promises_were_kept_broken_or_untested(
    client: httpx.AsyncClient,
) -> None:
    begun = (await client.post("/faults", json={"fault": "error", "seconds": 0.6, "code": 503})).json()
    assert begun["promise"] == "clients retry with growing delays; every request succeeds in the end"
    assert begun["what"].startswith("the API server answers --code")
    assert begun["state"] == "working"
    await until(lambda: _state(client, begun["id"]))
    over = (await client.get(f"/faults/{begun['id']}")).json()
    # No request was sent during this time.
    assert (over["kept"], over["broken"], over["untried"]) == ([], [], ["it affected no request"])
    assert (await client.get("/faults")).json() == {"items": []}
    assert (await client.get("/faults/99")).json()[
        "message"
    ] == "there is no fault 99, or its result is no longer kept"
    assert (await client.get("/faults/x")).status_code == 400


async def _state(client: httpx.AsyncClient, number: int) -> bool:
    return bool((await client.get(f"/faults/{number}")).json()["state"] == "over")


async def test_invariants_broken_during_a_fault_are_named(client: httpx.AsyncClient) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    made = await client.post(
        "/api/v1/namespaces/default/pods", json={**pod, "apiVersion": "v1", "kind": "Pod"}
    )
    assert made.status_code == 201
    status = {"status": {"phase": "Running"}}
    path = "/api/v1/namespaces/default/pods/p"
    assert (await client.patch(f"{path}/status", json=status, headers=MERGE)).status_code == 200
    begun = (await client.post("/faults", json={"fault": "watch-cut", "seconds": 600})).json()
    await client.delete(path, params={"gracePeriodSeconds": 0})
    await client.delete("/faults")
    await until(lambda: _state(client, begun["id"]), 120)
    assert (await client.get(f"/faults/{begun['id']}")).json()["broken"] == ["pod default/p is gone"]


async def test_a_fault_of_a_node_is_forwarded_to_its_agent(client: httpx.AsyncClient) -> None:
    strikes = Strikes()
    async with strikes.serve() as url:
        port = int(url.rpartition(":")[2])
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-7"}}
        assert (await client.post("/api/v1/nodes", json=node)).status_code == 201
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        await client.patch("/api/v1/nodes/node-7/status", json={"status": status}, headers=MERGE)
        body = {"fault": "driver-slow", "seconds": 600, "node": "node-7", "delay": 3}
        begun = (await client.post("/faults", json=body)).json()
        assert begun["promise"] == KINDS["driver-slow"].promise
        assert [(one.fault, one.node, one.delay) for one in strikes.begun] == [("driver-slow", "node-7", 3)]
        hang = {"fault": "driver-hang", "seconds": 600, "node": "node-7"}
        wrong = await client.post("/faults", json=hang)
        assert (wrong.status_code, wrong.json()["message"]) == (
            400,
            "there is no fault 'driver-hang': choose driver-slow",
        )
        second = (await client.post("/faults", json={**body, "delay": 4})).json()
        assert (await client.delete(f"/faults/{second['id']}")).status_code == 200
        assert [one.delay for one in strikes.ended] == [4]
        # The Node may be gone when the fault ends.
        await client.delete("/api/v1/nodes/node-7")
        await client.delete("/faults")
        assert [one.delay for one in strikes.ended] == [4, 3]
    unknown = await client.post("/faults", json=body)
    assert (unknown.status_code, unknown.json()["message"]) == (404, 'nodes "node-7" not found')


async def test_clients_are_affected_until_the_fault_is_cleared(client: httpx.AsyncClient) -> None:
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    assert (await client.post(MAPS, json=made)).status_code == 201
    begun = await client.post("/faults", json={"fault": "conflict", "seconds": 600})
    assert (begun.status_code, begun.json()["id"]) == (201, 1)
    await client.post("/faults", json={"fault": "error", "code": 429, "seconds": 600, "verbs": ["get"]})
    refused = await client.patch(f"{MAPS}/a", content=b'{"data":{"k":"v"}}', headers=MERGE)
    assert (refused.status_code, refused.json()["reason"]) == (409, "Conflict")
    assert refused.json()["message"].startswith('Operation cannot be fulfilled on configmaps "a"')
    many = await client.get(f"{MAPS}/a")
    assert (many.status_code, many.headers["retry-after"]) == (429, "1")
    # Faults never affect the server's own endpoints.
    assert (await client.get("/readyz")).status_code == 200
    assert [one["met"] for one in (await client.get("/faults")).json()["items"]] == [1, 1]
    assert (await client.put("/faults")).status_code == 405
    await client.delete("/faults")
    assert (await client.get(f"{MAPS}/a")).json().get("data") is None


async def test_a_watch_that_is_cut_ends_and_can_be_resumed(client: httpx.AsyncClient) -> None:
    revision = (await client.get(MAPS)).json()["metadata"]["resourceVersion"]
    watch = {"watch": "1", "resourceVersion": revision}
    async with client.stream("GET", MAPS, params=watch) as stream:
        await client.post("/faults", json={"fault": "watch-cut", "seconds": 600, "delay": 600})
        assert [line async for line in stream.aiter_lines()] == []
    await client.post(MAPS, json={"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}})
    async with client.stream("GET", MAPS, params=watch) as stream:
        first = orjson.loads(await anext(stream.aiter_lines()))
    assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "b")


async def test_a_delayed_watch_gets_every_event_once_the_fault_ends(client: httpx.AsyncClient) -> None:
    revision = (await client.get(MAPS)).json()["metadata"]["resourceVersion"]
    watch = {"watch": "1", "resourceVersion": revision}
    async with client.stream("GET", MAPS, params=watch) as stream:
        lines = stream.aiter_lines()
        await client.post("/faults", json={"fault": "watch-behind", "seconds": 600, "delay": 600})
        for name in "xyz":
            made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
            await client.post(MAPS, json=made)
        first = asyncio.ensure_future(anext(lines))
        assert not (await asyncio.wait([first], timeout=0.2))[0]
        await client.delete("/faults")
        events = [orjson.loads(await first), *[orjson.loads(await anext(lines)) for _ in range(2)]]
    assert [one["object"]["metadata"]["name"] for one in events] == ["x", "y", "z"]


async def test_some_requests_of_a_cut_connection_are_executed(client: httpx.AsyncClient) -> None:
    await client.post("/faults", json={"fault": "reset", "seconds": 600, "seed": 1})
    for number in range(20):
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"cut-{number}"}}
        with pytest.raises(httpx.TransportError):
            await client.post(MAPS, json=made)
    with pytest.raises(httpx.TransportError):
        await client.get(MAPS, params={"watch": "1"})
    await client.delete("/faults")
    found = [item["metadata"]["name"] for item in (await client.get(MAPS)).json()["items"]]
    done = [name for name in found if name.startswith("cut-")]
    assert 0 < len(done) < 20


async def test_a_lost_request_has_no_response_until_the_fault_ends() -> None:
    faults, clock = _faults(_fault(fault="loss", seconds=30, verbs=("get",)))
    assert await faults.meet("list", PODS, "", "") == "handled"
    waiting = asyncio.create_task(faults.meet("get", PODS, "x", ""))
    await clock.advance(29)
    assert not waiting.done()
    await clock.advance(1)
    assert await waiting == "lost"


async def test_faults_require_permission_with_rbac(tmp_path: Any) -> None:
    config = Config(port=0, data=tmp_path, database=IN_MEMORY, authorization_mode="RBAC")
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url) as client:
        body, somebody = {"fault": "error", "seconds": 1}, {"Impersonate-User": "somebody"}
        assert (await client.post("/faults", json=body, headers=somebody)).status_code == 403
        assert (await client.post("/faults", json=body)).status_code == 201
