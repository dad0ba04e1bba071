"""Whole runs: a program that does not start, and a driver that the user starts."""

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from dra_conformance.catalog import select
from dra_shared.client.kubeconfig import load
from dra_shared.client.rest import Client
from dra_shared.version import V1_35
from dralab.conformance import Options, Outcome, run

from tests.driver_conformance.reference import Reference
from tests.driver_conformance.trial import LONG, run_suite

pytestmark = pytest.mark.system


async def test_a_driver_that_exits_at_once_is_started_only_once() -> None:
    """Once, it was started again for each check, which took half a minute each."""
    script = "import sys; sys.exit('no licence')"
    checks = select("registration.appears,registration.type,prepare.succeeds,process.alive")
    results = await run(Options([sys.executable, "-S", "-c", script], checks))
    found = {one.check.id: (one.outcome, one.message) for one in results}
    assert found["registration.appears"][0] is Outcome.BROKEN
    assert "the driver ended after" in found["registration.appears"][1]
    assert found["registration.appears"][1].endswith("its last line: no licence")
    # This is reported even if the check for it was not selected.
    reason = f"the driver is not registered: {found['registration.appears'][1]}"
    assert found["registration.type"] == (Outcome.UNTRIED, reason)
    assert found["prepare.succeeds"][0] is Outcome.UNTRIED


async def test_a_driver_that_never_runs_passes_no_check() -> None:
    """Once, such a driver passed 23 checks, for example because it never read secrets."""
    results = await run(Options([sys.executable, "-S", "-c", "raise SystemExit('no licence')"]))
    assert [one.check.id for one in results if one.outcome is Outcome.KEPT] == []
    assert [one.check.id for one in results if one.outcome is Outcome.BROKEN] == ["registration.appears"]


class _CollectsGarbage(Reference):
    """Closes the files of its streams all at once, like idle drivers in Python."""

    async def reports(self) -> AsyncIterator[list[Any]]:
        if len(self.files) >= 20:
            for descriptor in self.files:
                os.close(descriptor)
            self.files.clear()
        self.files.append(os.open(os.devnull, os.O_RDONLY))
        async for report in super().reports():
            yield report


async def test_resources_freed_by_a_garbage_collector_are_not_reported_as_a_leak() -> None:
    """A driver on plain grpcio kept the sockets of 16 streams until Python collected them."""
    (result,) = await run_suite(_CollectsGarbage, select("health.closed"), pace=LONG)
    assert (result.outcome, result.message) == (Outcome.KEPT, "")


class _PublishesNothing(Reference):
    """Waits for a device that does not exist."""

    async def publish(self, owner: str) -> None:
        """Publish nothing."""


async def test_checks_of_slices_are_not_run_for_a_driver_without_slices() -> None:
    checks = select("slices.packed,slices.unique-devices,slices.standard-names,slices.published")
    found = {one.check.id: one.outcome for one in await run_suite(_PublishesNothing, checks)}
    assert found.pop("slices.published") is Outcome.BROKEN
    assert set(found.values()) == {Outcome.UNTRIED}


async def test_a_driver_that_the_user_starts_is_checked() -> None:
    """``--attach`` prints the paths, and checks that would end the driver are left out."""
    root = Path(tempfile.mkdtemp(prefix="d", dir="/tmp"))
    running: list[asyncio.Task[None]] = []
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(shutil.rmtree, root, ignore_errors=True)

        async def start(values: Mapping[str, str]) -> None:
            access = load(Path(values["kubeconfig"]))
            client = await stack.enter_async_context(
                Client(access.server, token=access.token, ssl_context=access.ssl_context)
            )
            driver = Reference(Path(values["work_dir"]), values["node_name"], client, [])
            await driver.start()
            stack.push_async_callback(driver.crash)

        def announce(values: Mapping[str, str]) -> None:
            running.append(asyncio.create_task(start(values)))

        checks = select(
            "registration.appears,prepare.idempotent,cdi.defined,prepare.after-restart,resources.memory,-unprepare"
        )
        results = await run(Options(checks=checks, directory=root, announce=announce, pace=LONG))
    found = {one.check.id: (one.outcome, one.message) for one in results}
    ended = (Outcome.SKIPPED, "the driver was started by somebody else (--attach)")
    assert found == {
        "registration.appears": (Outcome.KEPT, ""),
        "prepare.idempotent": (Outcome.KEPT, ""),
        "cdi.defined": (Outcome.KEPT, ""),
        "prepare.after-restart": ended,
        "resources.memory": (Outcome.SKIPPED, "the driver's process is not visible"),
    }


async def test_checks_of_newer_kubernetes_versions_are_skipped() -> None:
    results = await run_suite(
        Reference, select("metadata.mounted,registration.appears"), version=V1_35, pace=LONG
    )
    found = {one.check.id: (one.outcome, one.message) for one in results}
    assert found["registration.appears"] == (Outcome.KEPT, "")
    assert found["metadata.mounted"] == (Outcome.SKIPPED, "Kubernetes has it since 1.36")


class _OneForTheClaim(Reference):
    """Creates one CDI device for a claim, whatever devices the claim has, like drivers that only set variables."""

    def answer(self, uid: str, result: dict[str, Any], color: str) -> dict[str, Any]:
        return {**super().answer(uid, result, color), "cdi_device_ids": [f"{self.kind}={uid}"]}

    def spec(self, uid: str, devices: Sequence[dict[str, Any]]) -> dict[str, Any]:
        found = super().spec(uid, devices)
        edits = found["devices"][0]["containerEdits"]
        edits["env"] = [text for one in found["devices"] for text in one["containerEdits"]["env"]]
        return {**found, "devices": found["devices"][:1]}


class _Beta(Reference):
    """Serves only the older service."""

    def services(self) -> Sequence[str]:
        return ("v1beta1.DRAPlugin",)


class _LeavesNoSlices(Reference):
    """Deletes its slices when it exits, and starts with the first generation again."""

    async def stop(self) -> int | None:
        await super().stop()
        for one in await self.own_slices():
            await self.send("DELETE", f"/apis/resource.k8s.io/v1/resourceslices/{one['metadata']['name']}")
        return 0


class _DeletesAfterwards(Reference):
    """Creates new slices first and then deletes the old ones one by one, like kubeletplugin with few requests a
    second.
    """

    later: list[str]

    async def publish(self, owner: str) -> None:
        self.later = []
        await super().publish(owner)
        for path in self.later:
            await asyncio.sleep(0.05)
            await super().send("DELETE", path)

    async def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        if method == "DELETE":
            self.later.append(path)
            return {}
        return await super().send(method, path, body)


async def test_old_slices_may_be_deleted_after_the_new_ones_were_created() -> None:
    """Once, each late deletion was reported as a needless write."""
    results = await run_suite(_DeletesAfterwards, select("thousands.quiet,thousands.shrunk"), pace=LONG)
    assert [(one.outcome, one.message) for one in results] == [(Outcome.KEPT, "")] * 2


@pytest.mark.parametrize(
    ("made", "check", "outcome"),
    [
        (_OneForTheClaim, "config.requests", Outcome.NOT_SHOWN),
        (_Beta, "shares.share-id", Outcome.SKIPPED),
        (_LeavesNoSlices, "thousands.generation", Outcome.NOT_SHOWN),
    ],
)
async def test_checks_that_cannot_be_judged_for_an_unusual_driver_are_not_called_broken(
    made: type[Reference], check: str, outcome: Outcome
) -> None:
    (result,) = await run_suite(made, select(check), pace=LONG)
    assert result.outcome is outcome, result.message
