"""What an update may do without."""

import httpx
import pytest

_ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "x"}}
_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
_LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "x"}}
_MAPS = "/api/v1/namespaces/default/configmaps"
_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}


@pytest.mark.parametrize(
    ("path", "obj", "codes"),
    [(_ROLES, _ROLE, [201, 200]), (_LEASES, _LEASE, [201, 422]), (_MAPS, _MAP, [404, 404])],
)
async def test_some_kinds_are_made_by_an_update_and_some_need_a_version(
    client: httpx.AsyncClient, path: str, obj: dict[str, object], codes: list[int]
) -> None:
    body = {**obj, "metadata": {"name": "x", "labels": {"a": "b"}}}
    answers = [await client.put(f"{path}/x", json=one) for one in (obj, body)]
    assert [answer.status_code for answer in answers] == codes
    if codes[1] == 422:
        assert answers[1].json()["message"] == (
            'leases.coordination.k8s.io "x" is invalid: metadata.resourceVersion: Invalid value: 0: '
            "must be specified for an update"
        )
