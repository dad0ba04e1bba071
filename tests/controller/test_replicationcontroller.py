"""ReplicationControllers against a real API server."""

from dra_shared.api.resources import EVENTS, REPLICATION_CONTROLLERS

from tests.controller.cluster import POD_SPEC, Cluster, controllers


async def test_replication_controller_creates_and_deletes_pods_to_match_its_replicas(
    cluster: Cluster,
) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": POD_SPEC}
    async with controllers(cluster, "replicationcontroller", "garbage-collector-controller"):
        await cluster.create("ReplicationController", "web", spec={"replicas": 3, "template": template})

        async def has_replicas(number: int) -> bool:
            web = await cluster.get("ReplicationController", "web")
            counts = (web.status.replicas, web.status.available_replicas or 0) if web else ()
            return counts == (number, number) and len(await cluster.items("Pod")) == number

        await cluster.until(lambda: has_replicas(3), meanwhile=cluster.run_pods)
        body = {"spec": {"replicas": 1}}
        await cluster.client.patch(REPLICATION_CONTROLLERS, "web", body, "default")
        await cluster.until(lambda: has_replicas(1), meanwhile=cluster.run_pods)
        (pod,) = await cluster.items("Pod")
        assert pod.metadata.owner_references[0].kind == "ReplicationController"
        await cluster.delete("ReplicationController", "web", propagation="Background")

        async def is_gone() -> bool:
            return not await cluster.items("Pod")

        await cluster.until(is_gone, meanwhile=cluster.run_pods)

        async def is_reported() -> bool:
            events = (await cluster.client.list(EVENTS, "default")).items
            components = {event.source.component for event in events}
            return components == {"replication-controller"}

        await cluster.until(is_reported)
