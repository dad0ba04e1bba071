"""The controllers as one service."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import prometheus_client
import pytest
from dra_controller.manager import ControllerConfig, ControllerManager
from dra_shared.client.rest import Client
from dra_shared.features import FeatureGates

from tests.controller.cluster import Cluster, controllers


@contextlib.asynccontextmanager
async def _run_elected(cluster: Cluster, identity: str) -> AsyncIterator[ControllerManager]:
    config = ControllerConfig(controllers=("serviceaccount",), leader_elect=True, identity=identity)
    async with Client(cluster.url) as client, ControllerManager(config, client) as manager:
        yield manager


async def test_a_standby_leads_after_the_leader_stopped(cluster: Cluster) -> None:
    async with _run_elected(cluster, "second") as second:
        async with asyncio.timeout(60):
            await second.wait_until_synced()
        async with _run_elected(cluster, "standby") as standby:
            await asyncio.sleep(0)
            assert standby.ready
            assert not standby.controllers
    async with _run_elected(cluster, "third") as third, asyncio.timeout(60):
        await third.wait_until_synced()
        assert set(third.controllers) == {"serviceaccount-controller"}


async def test_disabled_controllers_do_not_run(cluster: Cluster) -> None:
    async with controllers(cluster, "*", "-device-taint-eviction", "-deployment-controller") as manager:
        running = manager.controllers
        assert "device-taint-eviction-controller" not in running
        assert "deployment-controller" not in running
        assert "resourceclaim-controller" in running


async def test_controllers_of_disabled_features_do_not_run(cluster: Cluster) -> None:
    name = "resourcepoolstatusrequest-controller"
    async with controllers(cluster) as manager:
        assert name not in manager.controllers
    async with controllers(cluster, gates=FeatureGates(DRAResourcePoolStatus=True)) as manager:
        assert name in manager.controllers


async def test_metrics_of_controllers_have_upstream_names(cluster: Cluster) -> None:
    async with controllers(cluster):
        text = prometheus_client.generate_latest().decode()
    for name in (
        "dynamic_resource_allocation_resourceclaim_creates_total",
        "dynamic_resource_allocation_resource_claims",
        "device_taint_eviction_controller_pod_deletions_total",
        "device_taint_eviction_controller_pod_deletion_duration_seconds",
        "taint_eviction_controller_pod_deletions_total",
        "taint_eviction_controller_pod_deletion_duration_seconds_bucket",
        "cronjob_controller_job_creation_skew_duration_seconds_bucket",
        "ttl_after_finished_controller_job_deletion_duration_seconds_bucket",
        'workqueue_depth{name="noexec_taint_pod"}',
        "pod_gc_collector_force_delete_pods_total",
        'workqueue_depth{name="resource_claim"}',
        'workqueue_depth{name="garbage_collector_attempt_to_delete"}',
    ):
        assert name in text


def test_an_unknown_controller_is_rejected() -> None:
    with pytest.raises(ValueError, match="not in the list of known controllers"):
        ControllerManager(ControllerConfig(controllers=("nonsense",)), Client("http://127.0.0.1:1"))
