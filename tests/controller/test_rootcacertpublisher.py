"""The CA certificates in each namespace."""

from dra_controller.manager import ControllerConfig, ControllerManager
from dra_shared.api.resources import CONFIG_MAPS
from dra_shared.client.rest import Client

from tests.controller.cluster import Cluster

_NAME = "kube-root-ca.crt"


async def _is_published(cluster: Cluster, namespace: str, content: str) -> bool:
    found = await cluster.get("ConfigMap", _NAME, namespace)
    return (
        found is not None
        and found.data == {"ca.crt": content}
        and found.metadata.annotations["kubernetes.io/description"].startswith("Contains a CA bundle that")
    )


async def test_certificates_are_restored_in_every_namespace(cluster: Cluster) -> None:
    config = ControllerConfig(controllers=("root-ca-cert-publisher",), root_ca="PEM")
    async with Client(cluster.url) as client, ControllerManager(config, client) as manager:
        await manager.wait_until_synced()
        await cluster.until(lambda: _is_published(cluster, "kube-system", "PEM"))
        await cluster.create("Namespace", "new")
        await cluster.until(lambda: _is_published(cluster, "new", "PEM"))
        await cluster.delete("ConfigMap", _NAME, "new")
        await cluster.until(lambda: _is_published(cluster, "new", "PEM"))
        changed = {"data": {"ca.crt": "forged", "more": "x"}}
        await cluster.client.patch(CONFIG_MAPS, _NAME, {**changed, "metadata": {"annotations": None}}, "new")
        await cluster.until(lambda: _is_published(cluster, "new", "PEM"))


async def test_no_certificates_are_published_in_a_terminating_namespace(cluster: Cluster) -> None:
    async with Client(cluster.url) as client:
        manager = ControllerManager(ControllerConfig(controllers=("*",)), client)
        async with manager:
            await manager.wait_until_synced()
            await cluster.create("Namespace", "old")
            await cluster.until(lambda: _is_published(cluster, "old", ""))
            await cluster.delete("Namespace", "old")

            async def is_gone() -> bool:
                return await cluster.get("Namespace", "old") is None

            await cluster.until(is_gone)
