"""A quick run of the suite against a driver in the test's own process."""

import contextlib
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dra_conformance.cdifiles import CdiFiles
from dra_conformance.kubelet import Kubelet
from dra_conformance.pace import Pace
from dra_conformance.runner import run
from dra_conformance.session import Session
from dra_conformance.suite import NODE
from dra_conformance.world import World, default_rules
from dra_shared.client.kubeconfig import load
from dra_shared.client.rest import Client
from dra_shared.version import Version
from dralab.conformance import CHECKS, Check, Outcome, Result

from tests.driver_conformance.reference import LocalDriver, Reference

PACE = Pace(
    start=2.0,
    call=1.0,
    call_again=1.0,
    call_silent=1.0,
    quiet=0.4,
    restored=2.0,
    stop=1.0,
    health=0.8,
    outage=0.3,
    poll=0.005,
    devices=300,
    cycles=40,
)
#: Limits for correct drivers, which never reach them, however slow the machine is.
LONG = replace(PACE, start=60.0, call=60.0, call_again=60.0, call_silent=60.0, restored=60.0, stop=60.0)
#: Limits that end a run of a driver that leaves calls unanswered, and that a correct one rarely reaches.
GENEROUS = replace(
    PACE,
    start=20.0,
    call=10.0,
    call_again=10.0,
    call_silent=10.0,
    restored=20.0,
    stop=10.0,
    health=8.0,
)
BAD = frozenset({Outcome.BROKEN, Outcome.WARNING, Outcome.UNTRIED})


async def run_suite(
    made: type[Reference],
    checks: Sequence[Check] = CHECKS,
    version: Version | None = None,
    pace: Pace = PACE,
) -> list[Result]:
    """Run checks on a driver of that class, and return the results. ``version`` replaces its Kubernetes version."""
    version = version or made.version
    if version is not made.version:
        made = type(made.__name__, (made,), {"version": version})
    rules = default_rules() if made.rules is None else made.rules
    async with contextlib.AsyncExitStack() as stack:
        # Below /tmp, because a unix socket's path must be short.
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="d", dir="/tmp")))
        world = await stack.enter_async_context(World(root, NODE, version, rules, tls=False))
        access = load(world.kubeconfig)
        client = await stack.enter_async_context(
            Client(access.server, user_agent="mutant/1.0", token=access.token)
        )
        cdi = await stack.enter_async_context(CdiFiles(root / "cdi"))
        driver = LocalDriver(made, root, NODE, client)
        parameters = {
            "apiVersion": f"{made.name}/v1",
            "kind": "Paint",
            "color": "red",
            "layers": [{"gloss": 1}],
        }
        kubelet = Kubelet(root / "kubelet", pace.poll)
        session = Session(world, kubelet, driver, cdi, pace, parameters=parameters)
        stack.push_async_callback(session.close)
        return await run(session, checks, {check.id: check for check in CHECKS})


def bad(results: Sequence[Result]) -> dict[str, str]:
    """Return the failed checks with their reasons."""
    return {one.check.id: f"{one.outcome}: {one.message}" for one in results if one.outcome in BAD}
