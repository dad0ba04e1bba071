"""Real processes of the controllers, whose leader is killed."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from dra_controller.main import main
from dra_shared.api.resources import LEASES, SERVICE_ACCOUNTS
from dra_shared.client.errors import NotFound
from dra_shared.client.terms import Terms

from tests.controller.cluster import Cluster


@contextlib.asynccontextmanager
async def _process(cluster: Cluster) -> AsyncIterator[asyncio.subprocess.Process]:
    flags = ("--leader-elect", "--controllers", "serviceaccount", "--log-level", "error")
    # Long enough that a leader on a busy machine can renew its lease while another process starts.
    terms = {"lease-duration": "8s", "renew-deadline": "7s", "retry-period": "200ms"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dra_controller.main", "--server", cluster.url, *flags),
        *(f"--leader-elect-{name}={value}" for name, value in terms.items()),
        env={key: value for key, value in os.environ.items() if not key.startswith("DRALAB_")},
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _lease(cluster: Cluster) -> Any:
    with contextlib.suppress(NotFound):
        return (await cluster.client.get(LEASES, "kube-controller-manager", "kube-system")).spec
    return None


async def _account(cluster: Cluster, namespace: str) -> bool:
    with contextlib.suppress(NotFound):
        await cluster.client.get(SERVICE_ACCOUNTS, "default", namespace)
        return True
    return False


async def test_a_standby_takes_over_from_a_leader_that_was_killed(cluster: Cluster) -> None:
    async def has_leader() -> bool:
        spec = await _lease(cluster)
        return spec is not None and bool(spec.holder_identity)

    async with _process(cluster) as leader:
        await cluster.until(has_leader)
        first = (await _lease(cluster)).holder_identity
        async with _process(cluster):
            await cluster.create("Namespace", "one")
            await cluster.until(lambda: _account(cluster, "one"))
            leader.kill()
            await leader.wait()
            await cluster.create("Namespace", "two")
            await cluster.until(lambda: _account(cluster, "two"))
            spec = await _lease(cluster)
            assert spec.holder_identity != first
            assert spec.lease_transitions >= 1
            assert spec.lease_duration_seconds == 8


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ((10, 10, 2), "leaseDuration must be greater than renewDeadline"),
        ((15, 2, 2), "renewDeadline must be greater than"),
        ((0.9, 0.5, 0.1), "leaseDuration must be greater than zero"),
    ],
)
def test_lease_durations_too_short_for_a_leader_to_renew_are_rejected(
    times: tuple[float, float, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Terms(*times)


def test_leader_election_flags_with_invalid_durations_are_rejected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["dralab-controller", "--leader-elect-lease-duration", "5s"])
    with pytest.raises(SystemExit):
        main()
    assert "leaseDuration must be greater than renewDeadline" in capsys.readouterr().err
