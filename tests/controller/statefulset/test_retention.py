"""Owners of the volume claims of a StatefulSet, by retention policy."""

from typing import Any

import pytest
from dra_controller.statefulset.controller import goes_with, with_owner
from dra_shared.api.codec import convert
from dra_shared.api.resources import EVENTS, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS

from tests.controller.cluster import POD_SPEC, Cluster, controllers

_SET = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "set", "controller": True}
_POD = {"apiVersion": "v1", "kind": "Pod", "name": "db-0", "uid": "pod", "controller": True}
_FORMER = {**_POD, "uid": "former"}
_FOREIGN = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x", "controller": True}


def _owners(deleted: str, scaled: str, *before: dict[str, Any], surplus: bool) -> list[str]:
    policy = {"whenDeleted": deleted, "whenScaled": scaled}
    meta = {"name": "db", "namespace": "default", "uid": "set"}
    stateful_set = convert(
        STATEFUL_SETS, {"metadata": meta, "spec": {"persistentVolumeClaimRetentionPolicy": policy}}
    )
    pod = convert(PODS, {"metadata": {"name": "db-0", "namespace": "default", "uid": "pod"}})
    claim = convert(
        PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "v-db-0", "ownerReferences": list(before)}}
    )
    return [
        entry.uid for entry in with_owner(claim, stateful_set, pod, surplus=surplus).metadata.owner_references
    ]


@pytest.mark.parametrize(
    ("deleted", "scaled", "kept", "surplus"),
    [
        ("Retain", "Retain", [], []),
        ("Delete", "Retain", ["set"], ["set"]),
        ("Retain", "Delete", [], ["pod"]),
        ("Delete", "Delete", ["set"], ["pod"]),
    ],
)
def test_retention_policy_sets_the_owners_of_a_claim(
    deleted: str, scaled: str, kept: list[str], surplus: list[str]
) -> None:
    assert _owners(deleted, scaled, surplus=False) == kept
    assert _owners(deleted, scaled, _SET, surplus=False) == kept
    assert _owners(deleted, scaled, _FORMER, surplus=False) == kept
    assert _owners(deleted, scaled, _SET, surplus=True) == surplus
    assert _owners(deleted, scaled, _FOREIGN, surplus=True) == ["x"]


def test_a_claim_is_matched_to_a_deleted_pod_by_its_owner_reference() -> None:
    claim = convert(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "v-db-0", "ownerReferences": [_FORMER]}})
    assert goes_with(claim, "db-0")
    assert not goes_with(claim, "db-1")


async def test_claims_are_owned_by_the_set_or_by_surplus_pods(cluster: Cluster) -> None:
    labels = {"app": "db"}
    spec = {
        "serviceName": "db",
        "replicas": 2,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": POD_SPEC},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"},
        "volumeClaimTemplates": [
            {
                "metadata": {"name": "v"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }
        ],
    }

    async def owners() -> dict[str, list[str]]:
        claims = await cluster.client.list(PERSISTENT_VOLUME_CLAIMS, "default")
        return {
            claim.metadata.name: [entry.kind for entry in claim.metadata.owner_references]
            for claim in claims.items
        }

    async def has_owners(**wanted: list[str]) -> bool:
        return await owners() == {name.replace("_", "-"): kinds for name, kinds in wanted.items()}

    async with controllers(cluster, "statefulset-controller"):
        await cluster.create("StatefulSet", "db", spec=spec)
        await cluster.until(
            lambda: has_owners(v_db_0=["StatefulSet"], v_db_1=["StatefulSet"]), meanwhile=cluster.run_pods
        )
        await cluster.client.patch(STATEFUL_SETS, "db", {"spec": {"replicas": 1}}, "default")
        await cluster.until(
            lambda: has_owners(v_db_0=["StatefulSet"], v_db_1=["Pod"]), meanwhile=cluster.run_pods
        )

        async def is_reported() -> bool:
            events = (await cluster.client.list(EVENTS, "default")).items
            text = "Create Claim v-db-0 Pod db-0 in StatefulSet db success"
            return ("SuccessfulCreate", text) in {(event.reason, event.message) for event in events}

        await cluster.until(is_reported)
