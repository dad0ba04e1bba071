"""Controllers that use service accounts."""

import asyncio
import json
import re
from typing import Any

import httpx
from dra_controller.accounts import Accounts, account_of
from dra_controller.jobkinds.controller import JobKindController
from dra_controller.registry import CONTROLLERS
from dra_lab.rights import JOB_KIND_CONTROLLERS
from dra_shared.client.rest import Client
from dra_shared.clock import FakeClock

from tests.support.reference import REPOSITORY

_ACCOUNTS = "/api/v1/namespaces/kube-system/serviceaccounts"


class _Server:
    """Has service accounts, issues their tokens, and shows the token of all other requests."""

    def __init__(self) -> None:
        self.accounts: dict[str, int] = {}
        self.broken = False

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path, who = request.url.path, request.headers.get("authorization")
        if not path.startswith(_ACCOUNTS):
            return httpx.Response(200, json={"who": who})
        if self.broken:
            return _status(503, "ServiceUnavailable")
        assert who == "Bearer manager"
        if path == _ACCOUNTS:
            made: dict[str, Any] = json.loads(request.content)
            self.accounts[made["metadata"]["name"]] = 0
            return httpx.Response(201, json=made)
        name = path.split("/")[-2]
        if name not in self.accounts:
            return _status(404, "NotFound")
        self.accounts[name] += 1
        return httpx.Response(201, json={"status": {"token": f"{name}-{self.accounts[name]}"}})


def _status(code: int, reason: str) -> httpx.Response:
    return httpx.Response(code, json={"kind": "Status", "code": code, "reason": reason, "message": reason})


async def _who(client: Client) -> str:
    found: str = (await client.raw("GET", "/whoami")).json()["who"]
    return found


def test_every_controller_has_an_account_with_a_default_role() -> None:
    policy = REPOSITORY / "services/apiserver/dra_apiserver/kinds/rbac/policy.txt"
    bound = set(re.findall(r"^  ServiceAccount kube-system/(\S+)", policy.read_text(), re.MULTILINE))
    # Roles that only a runtime configuration needs are created with it.
    own = {"classic-dra-controller", *JOB_KIND_CONTROLLERS}
    assert {account_of(name) for name in CONTROLLERS} - bound == own
    kinds = {name for name, one in CONTROLLERS.items() if issubclass(one, JobKindController)}
    assert kinds == {*JOB_KIND_CONTROLLERS}


async def test_accounts_are_created_and_their_tokens_renewed() -> None:
    server, clock = _Server(), FakeClock()
    server.accounts["job-controller"] = 0
    manager = Client("http://fake", token="manager", transport=httpx.MockTransport(server))
    accounts = Accounts(
        manager, clock, ["job-controller", "node-lifecycle-controller", "taint-eviction-controller"]
    )
    server.broken = True
    getting = asyncio.create_task(accounts.get_tokens())
    await clock.advance(0.5)
    assert not getting.done()
    server.broken = False
    await clock.advance(1)
    await getting
    assert server.accounts == {"job-controller": 1, "node-controller": 1}
    job, eviction = accounts.client("job-controller"), accounts.client("taint-eviction-controller")
    assert await _who(job) == "Bearer job-controller-1"
    assert await _who(eviction) == "Bearer node-controller-1"
    renewing = asyncio.create_task(accounts.run())
    # An account that someone deleted is created again.
    del server.accounts["node-controller"]
    await clock.advance(61)
    assert await _who(job) == "Bearer job-controller-2"
    assert await _who(eviction) == "Bearer node-controller-1"
    assert "node-controller" in server.accounts
    renewing.cancel()
    await asyncio.gather(renewing, return_exceptions=True)
