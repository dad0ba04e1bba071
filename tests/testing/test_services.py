"""The services of a cluster in the test's own process, and the logging of that process."""

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from dra_testing import services
from dra_testing.services import _quiet_logs
from dralab.testing import AsyncCluster
from structlog.testing import capture_logs


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    configured, before = structlog.is_configured(), structlog.get_config()
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
    if configured:
        structlog.configure(**before)


def _is_printed(capfd: pytest.CaptureFixture[str]) -> bool:
    structlog.get_logger().error("a service fails")
    return "a service fails" in "".join(capfd.readouterr())


def test_services_print_nothing_to_the_output_of_a_test(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _quiet_logs(tmp_path)
    assert not _is_printed(capfd)


def test_services_print_nothing_after_a_test_that_captured_logs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with capture_logs():
        structlog.get_logger().info("captured")
    assert structlog.is_configured()
    _quiet_logs(tmp_path)
    assert not _is_printed(capfd)


def test_logging_that_a_program_configured_is_not_changed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    structlog.configure(processors=[structlog.processors.JSONRenderer()])
    _quiet_logs(tmp_path)
    assert _is_printed(capfd)


@pytest.fixture
def unfreeze() -> Iterator[None]:
    """Unfreeze the objects of the test process.

    A cluster does not freeze its objects in a program that has frozen some.
    """
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.mark.usefixtures("unfreeze")
async def test_objects_of_a_cluster_are_exempt_from_garbage_collection_until_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(services, "_COLLECT_AFTER", 1)
    # Python 3.12 itself freezes some hundred objects when it starts, and when it imports modules.
    frozen = gc.get_freeze_count()
    async with AsyncCluster() as cluster:
        # A cluster is some 100,000 objects.
        young = sum(len(gc.get_objects(generation)) for generation in (0, 1))
        server = weakref.ref(cluster._services.server)  # type: ignore[union-attr]  # in this process
        assert server() is not None
        before = gc.get_stats()[2]["collections"]
    assert young < 20_000
    assert gc.isenabled()
    assert gc.get_freeze_count() - frozen < 10_000
    assert gc.get_stats()[2]["collections"] > before
    del cluster
    gc.collect()
    assert server() is None


async def test_new_cluster_has_the_default_account_of_every_namespace() -> None:
    async with AsyncCluster(nodes=0) as cluster:
        accounts = {one["metadata"]["namespace"] for one in await cluster.list("serviceaccounts")}
        assert accounts >= {one["metadata"]["name"] for one in await cluster.list("namespaces")}
