"""Faults of service processes, through the supervisor, the API server and ``dralab fault``."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.errors import bad_request
from dra_apiserver.handlers import faultprocesses
from dra_apiserver.server import ApiServer
from dra_kube.cluster import Cluster, Record, ServiceRecord
from dra_lab.faults import processes
from dra_lab.faults.listener import FaultListener
from dra_lab.faults.processes import SECOND
from dra_lab.faults.striking import Striker
from dra_lab.ports import Port
from dra_lab.supervisor import ServiceSpec, Supervisor
from dra_shared.errors import UserError
from dra_shared.faults.cases import Cases

from tests.support.reference import REPOSITORY
from tests.support.waiting import until

pytestmark = pytest.mark.system

_TOKEN = "secret"


@dataclass
class _World:
    """An API server in this process, and a stub in place of the scheduler."""

    cluster: Cluster
    supervisor: Supervisor
    listener: FaultListener
    client: httpx.AsyncClient

    @property
    def pid(self) -> int:
        return self.supervisor.pids()["scheduler"]

    @property
    def state(self) -> str:
        return _state(self.pid)

    async def over(self, number: int) -> dict[str, Any] | None:
        found: dict[str, Any] = (await self.client.get(f"/faults/{number}")).json()
        return found if found["state"] == "over" else None


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[_World]:
    cluster = Cluster(tmp_path)
    token = tmp_path / "token"
    token.write_text(_TOKEN)
    with cluster.locked(), Port() as port:
        spec = ServiceSpec(
            "scheduler",
            "tests.lab.stub_service",
            port,
            [],
            port_flag="--port",
            environment={"PYTHONPATH": str(REPOSITORY)},
        )
        listener = FaultListener(cluster, _TOKEN)
        config = Config(
            port=0,
            data=tmp_path,
            relaxed=True,
            supervisor_url=listener.url,
            supervisor_token_file=token,
        )
        with contextlib.closing(listener):
            async with (
                ApiServer(config) as server,
                Supervisor([spec], tmp_path, report=lambda _: None) as supervisor,
                listener.serve(supervisor, lambda: spec),
                httpx.AsyncClient(base_url=server.url) as client,
            ):
                await supervisor.ready()
                cluster.write(
                    Record(
                        pid=os.getpid(),
                        server=server.url,
                        services={"scheduler": ServiceRecord(pid=0, url=port.url)},
                        supervisor=listener.url,
                        supervisor_token=_TOKEN,
                    )
                )
                cluster.write_kubeconfig(server.url)
                yield _World(cluster, supervisor, listener, client)


async def test_a_killed_service_is_restarted_and_the_promise_of_the_fault_is_checked(world: _World) -> None:
    first = world.pid
    begun = (await world.client.post("/faults", json={"fault": "kill", "service": "scheduler"})).json()
    assert begun["promise"] == "it continues from the stored state; no acknowledged write is lost"
    over = await until(lambda: world.over(begun["id"]))
    assert over["broken"] == []
    assert world.pid != first
    assert await world.supervisor.is_ready("scheduler")


async def test_a_service_that_is_restarting_may_get_another_fault(world: _World) -> None:
    body = {"fault": "kill", "service": "scheduler"}
    first = (await world.client.post("/faults", json=body)).json()
    second = {"fault": "two-schedulers", "seconds": 1}
    assert (await world.client.post("/faults", json={**second, "check": True})).status_code == 201
    assert (await until(lambda: world.over(first["id"])))["broken"] == []


async def test_fault_of_a_process_that_has_just_ended_is_over(
    world: _World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(self: object, number: int) -> None:
        raise bad_request("scheduler does not run just now")

    monkeypatch.setattr("dra_apiserver.handlers.faultprocesses.Supervisor.begin", refuse)
    body = {"fault": "stop", "service": "scheduler", "seconds": 600}
    begun = (await world.client.post("/faults", json=body)).json()
    assert await until(lambda: world.over(begun["id"]))
    # The connection of the client is still good.
    assert (await world.client.delete("/faults")).status_code == 200


async def test_a_stopped_service_continues_when_the_fault_ends(world: _World) -> None:
    body = {"fault": "stop", "service": "scheduler", "seconds": 2}
    begun = (await world.client.post("/faults", json=body)).json()
    await until(lambda: world.state == "T")
    await until(lambda: world.state == "S")
    assert (await until(lambda: world.over(begun["id"])))["broken"] == []


async def test_a_stopped_service_continues_after_clear_by_command_and_over_http(world: _World) -> None:
    body = {"fault": "stop", "service": "scheduler", "seconds": 600}
    for number in range(2):
        begun = (await world.client.post("/faults", json=body)).json()
        await until(lambda: world.state == "T")
        items = (await world.client.get("/faults")).json()["items"]
        assert [one["id"] for one in items] == [begun["id"]]
        await (Striker(world.cluster).clear() if number else world.client.delete("/faults"))
        await until(lambda: world.state == "S")
        assert (await world.client.get("/faults")).json() == {"items": []}


async def test_a_fault_is_ended_by_the_number_that_was_assigned_to_it(world: _World) -> None:
    error = {"fault": "error", "seconds": 600, "verbs": ["patch"]}
    bodies = (error, {"fault": "stop", "service": "scheduler", "seconds": 600}, {**error, "code": 503})
    numbers = [(await world.client.post("/faults", json=body)).json()["id"] for body in bodies]
    await until(lambda: world.state == "T")
    left = list(numbers)
    for number in (numbers[2], numbers[1]):
        ended = (await world.client.delete(f"/faults/{number}")).json()
        assert (ended["id"], ended["state"]) == (number, "settling")
        left.remove(number)
        assert [one["id"] for one in (await world.client.get("/faults")).json()["items"]] == left
    await until(lambda: world.state == "S")
    # This fault still affects requests: the other fault of its kind was ended.
    assert (await world.client.patch("/api/v1/namespaces/default/configmaps/a")).status_code == 500
    assert (await world.client.delete("/faults/99")).status_code == 404


@pytest.mark.parametrize("one", [True, False], ids=["one", "all"])
async def test_a_fault_that_is_ended_before_it_begins_never_begins(
    world: _World, monkeypatch: pytest.MonkeyPatch, one: bool
) -> None:
    """The response is sent before the fault begins. Once, a request to end it in between was lost."""
    ended, begun = asyncio.Event(), asyncio.Event()
    begin = faultprocesses.Supervisor.begin

    async def late(supervisor: faultprocesses.Supervisor, number: int) -> None:
        await ended.wait()
        await begin(supervisor, number)
        begun.set()

    monkeypatch.setattr(faultprocesses.Supervisor, "begin", late)
    body = {"fault": "stop", "service": "scheduler", "seconds": 600}
    number = (await world.client.post("/faults", json=body)).json()["id"]
    answer = await world.client.delete(f"/faults/{number}" if one else "/faults")
    assert answer.status_code == 200
    ended.set()
    await begun.wait()
    # A service that is not stopped sleeps or runs.
    assert world.state != "T"
    assert (await world.client.get("/faults")).json() == {"items": []}
    assert (await world.client.get(f"/faults/{number}")).json()["state"] == "over"


@pytest.mark.parametrize("one", [True, False], ids=["one", "all"])
async def test_a_fault_that_is_ended_while_it_begins_is_over(
    world: _World, monkeypatch: pytest.MonkeyPatch, one: bool
) -> None:
    """Once, such a fault was undone but shown as active, or not undone."""
    entered, ended = asyncio.Event(), asyncio.Event()
    released, withdraw = processes.resume_if_killed, Cases.withdraw

    @contextlib.asynccontextmanager
    async def slow(pid: int) -> AsyncIterator[None]:
        entered.set()
        await ended.wait()
        async with released(pid):
            yield

    def withdraw_and_signal(cases: Cases, number: int | None = None) -> None:
        withdraw(cases, number)
        ended.set()

    monkeypatch.setattr(processes, "resume_if_killed", slow)
    monkeypatch.setattr(Cases, "withdraw", withdraw_and_signal)
    body = {"fault": "stop", "service": "scheduler", "seconds": 600}
    number = (await world.client.post("/faults", json=body)).json()["id"]
    await entered.wait()
    assert (await world.client.delete(f"/faults/{number}" if one else "/faults")).status_code == 200
    await until(lambda: world.over(number))
    await until(lambda: world.state == "S")
    assert (await world.client.get("/faults")).json() == {"items": []}


async def test_a_service_that_two_faults_stopped_continues_when_both_are_over(world: _World) -> None:
    striker = Striker(world.cluster)
    await striker.strike("stop", {"service": "scheduler", "seconds": 600})
    body = {"fault": "stop", "service": "scheduler", "seconds": 0.1}
    short = (await world.client.post("/faults", json=body)).json()
    await until(lambda: world.over(short["id"]))
    assert world.state == "T"
    await striker.clear()
    await until(lambda: world.state == "S")


async def test_a_second_scheduler_runs_for_a_time(world: _World) -> None:
    await Striker(world.cluster).strike("two-schedulers", {"seconds": 600})
    pid = world.supervisor.pids()[SECOND]
    assert "--leader-elect=false" in _command(pid)
    with pytest.raises(UserError, match="there is a second scheduler already"):
        await Striker(world.cluster).strike("two-schedulers", {"seconds": 1})
    await Striker(world.cluster).clear()
    assert SECOND not in world.supervisor.pids()
    assert not _command(pid)


async def test_a_second_scheduler_that_is_never_ready_is_rejected_and_stopped(
    world: _World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_START_TIMEOUT", 0.0)
    with pytest.raises(UserError, match="second-scheduler is not ready after 0 s"):
        await Striker(world.cluster).strike("two-schedulers", {"seconds": 600})
    assert SECOND not in world.supervisor.pids()
    assert (await world.client.get("/faults")).json() == {"items": []}


async def test_faults_of_all_kinds_are_numbered_together(world: _World) -> None:
    numbers = [
        (await world.client.post("/faults", json=body)).json()["id"]
        for body in (
            {"fault": "conflict", "seconds": 600},
            {"fault": "stop", "service": "scheduler", "seconds": 600},
            {"fault": "error", "seconds": 600, "verbs": ["patch"]},
        )
    ]
    assert numbers == [1, 2, 3]
    assert [one["id"] for one in (await world.client.get("/faults")).json()["items"]] == numbers


async def test_process_faults_with_wrong_fields_are_rejected_by_server_and_command(world: _World) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"fault": "kill", "service": "nope"}, "there is no service 'nope': choose scheduler"),
        ({"fault": "stop", "service": "nope", "seconds": 1}, "there is no service 'nope': choose scheduler"),
        ({"fault": "stop", "service": 7, "seconds": 1}, "Expected `str`, got `int` - at `$.service`"),
        ({"fault": "stop", "seconds": 1, "node": "node-0"}, "unknown field `node`: stop takes seconds, "),
        (
            {"fault": "two-schedulers", "seconds": 1, "service": "x"},
            "unknown field `service`: two-schedulers ",
        ),
        ({"fault": "stop", "service": "scheduler"}, "seconds: stop needs them, above 0 and at most 3600"),
    ]
    for body, message in refused:
        answer = await world.client.post("/faults", json=body)
        assert (answer.status_code, answer.json()["kind"]) == (400, "Status"), body
        assert message in answer.json()["message"]
        arguments = {name: value for name, value in body.items() if name != "fault"}
        with pytest.raises(UserError) as error:
            await Striker(world.cluster).strike(body["fault"], arguments)
        assert message in str(error.value)
        assert (await world.client.get("/faults")).json() == {"items": []}


async def test_the_supervisor_requires_its_token(world: _World) -> None:
    async with httpx.AsyncClient(base_url=world.listener.url) as client:
        assert (await client.get("/faults")).status_code == 403
        good = {"Authorization": f"Bearer {_TOKEN}"}
        assert (await client.get("/faults", headers=good)).json() == {"items": []}
        assert (await client.post("/faults/7", headers=good)).status_code == 404
        assert (await client.get("/faults/7", headers=good)).status_code == 404
        latency = await client.post("/faults", json={"fault": "latency", "seconds": 1}, headers=good)
        assert latency.json() == {"message": "latency is not of processes"}


async def test_the_command_continues_processes_that_a_killed_supervisor_left_stopped() -> None:
    sleeper = await asyncio.create_subprocess_exec("sleep", "600")
    program = (
        "import asyncio, os, signal\n"
        "from dra_lab.faults.processes import resume_if_killed\n"
        "async def main():\n"
        f"    async with resume_if_killed({sleeper.pid}):\n"
        f"        os.kill({sleeper.pid}, signal.SIGSTOP)\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    try:
        supervisor = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
        assert await supervisor.wait() == -signal.SIGKILL
        await until(lambda: _state(sleeper.pid) == "S")
    finally:
        sleeper.kill()
        await sleeper.wait()


def _state(pid: int) -> str:
    """Return the process state in Linux's notation: R, S, T and so on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _command(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return []


async def test_a_fault_with_an_invalid_number_returns_404(world: _World) -> None:
    headers = {"authorization": f"Bearer {_TOKEN}"}
    async with httpx.AsyncClient(base_url=world.listener.url, headers=headers, trust_env=False) as client:
        for number in ("9" * 5000, "0" * 5000, "%C2%B2", "-1", "x"):
            for method in ("GET", "POST", "DELETE"):
                assert (await client.request(method, f"/faults/{number}")).status_code == 404
