"""Test the permissions of a node: its own pods' objects, its own node, lease and slices, and nothing else."""

import base64
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from dra_apiserver.config import Config, authorization_mode
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.jsontypes import JsonObject

from tests.support.cases import each_case

# One server for all: starting one takes longer than any test here.
pytestmark = pytest.mark.asyncio(loop_scope="module")


_NODE = {"impersonate-user": "system:node:n1", "impersonate-group": "system:nodes"}
_CORE, _DRA = "/api/v1", "/apis/resource.k8s.io/v1"
_PODS = f"{_CORE}/namespaces/default/pods"
_MIRROR = {"kubernetes.io/config.mirror": "x"}


def _pod(name: str, node: str, **spec: Any) -> JsonObject:
    containers = [{"name": "c", "image": "i"}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, "nodeName": node, **spec}}


def _volume(name: str, **source: Any) -> JsonObject:
    return {"name": name, **source}


_FURNITURE: tuple[tuple[str, JsonObject], ...] = (
    (f"{_CORE}/nodes", {"metadata": {"name": "n1"}}),
    (f"{_CORE}/nodes", {"metadata": {"name": "n2"}}),
    (f"{_CORE}/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}}),
    (
        f"{_CORE}/persistentvolumes",
        {
            "metadata": {"name": "pv"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "claimRef": {"namespace": "default", "name": "data"},
                "csi": {
                    "driver": "d.example",
                    "volumeHandle": "h",
                    "nodeStageSecretRef": {"name": "of-volume", "namespace": "storage"},
                },
            },
        },
    ),
    (
        _PODS,
        _pod(
            "mine",
            "n1",
            imagePullSecrets=[{"name": "pull"}],
            resourceClaims=[{"name": "gpu", "resourceClaimName": "claim"}],
            volumes=[
                _volume("s", secret={"secretName": "mounted"}),
                _volume("m", configMap={"name": "config"}),
                _volume("d", persistentVolumeClaim={"claimName": "data"}),
            ],
        ),
    ),
    (_PODS, _pod("theirs", "n2", volumes=[_volume("s", secret={"secretName": "foreign"})])),
    (f"{_DRA}/resourceslices", {"metadata": {"name": "slice-1"}, "spec": {"nodeName": "n1"}}),
    (f"{_DRA}/resourceslices", {"metadata": {"name": "slice-2"}, "spec": {"nodeName": "n2"}}),
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[httpx.AsyncClient]:
    config = Config(
        port=0, data=tmp_path_factory.mktemp("n"), database=IN_MEMORY, authorization_mode="Node,RBAC"
    )
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url) as client:
        for path, obj in _FURNITURE:
            spec = obj.get("spec", {})
            if "resourceslices" in path:
                spec |= {
                    "driver": "d.example",
                    "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                }
            answer = await client.post(path, json=obj)
            assert answer.status_code == 201, answer.text
        yield client


_UNRELATED = "no relationship found between node 'n1' and this object"
_SECRETS, _MAPS = f"{_CORE}/namespaces/default/secrets", f"{_CORE}/namespaces/default/configmaps"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces"
_SLICES = f"{_DRA}/resourceslices"


@each_case(
    ("method", "path", "reason"),
    [
        ("GET", f"{_SECRETS}/mounted", None),
        ("GET", f"{_SECRETS}/pull", None),
        ("GET", f"{_SECRETS}?fieldSelector=metadata.name=mounted", None),
        ("GET", f"{_CORE}/namespaces/storage/secrets/of-volume", None),
        ("GET", f"{_SECRETS}/foreign", _UNRELATED),
        ("GET", _SECRETS, "No Object name found"),
        ("GET", f"{_CORE}/secrets?fieldSelector=metadata.name=mounted", "can only read namespaced object"),
        ("DELETE", f"{_SECRETS}/mounted", "can only read resources of this type"),
        ("GET", f"{_MAPS}/config", None),
        ("GET", f"{_MAPS}/other", _UNRELATED),
        ("GET", f"{_CORE}/namespaces/default/persistentvolumeclaims/data", None),
        ("GET", f"{_CORE}/namespaces/default/persistentvolumeclaims", "can only get individual resources"),
        ("GET", f"{_CORE}/persistentvolumes/pv", None),
        ("GET", f"{_CORE}/persistentvolumes/other", _UNRELATED),
        ("GET", f"{_DRA}/namespaces/default/resourceclaims/claim", None),
        ("GET", f"{_DRA}/namespaces/default/resourceclaims/other", _UNRELATED),
        ("GET", f"{_PODS}/mine", None),
        ("GET", f"{_PODS}/theirs", _UNRELATED),
        ("GET", f"{_CORE}/pods?fieldSelector=spec.nodeName=n1", None),
        (
            "GET",
            f"{_CORE}/pods?fieldSelector=spec.nodeName=n2",
            "can only list/watch pods with spec.nodeName",
        ),
        (
            "GET",
            f"{_CORE}/pods?fieldSelector=spec.nodeName!=n1",
            "can only list/watch pods with spec.nodeName",
        ),
        ("GET", f"{_CORE}/nodes/n1", None),
        ("GET", f"{_CORE}/nodes/n2", "node 'n1' cannot read 'n2', only its own Node object"),
        ("GET", f"{_CORE}/nodes", "node 'n1' cannot read all nodes, only its own Node object"),
        ("DELETE", f"{_CORE}/nodes/n1", "cannot delete resource"),
        ("GET", f"{_SLICES}/slice-1", None),
        ("GET", f"{_SLICES}/slice-2", _UNRELATED),
        ("GET", f"{_SLICES}?fieldSelector=spec.nodeName=n1", None),
        ("GET", _SLICES, "can only list/watch/deletecollection resourceslices with nodeName field selector"),
        ("GET", f"{_LEASES}/kube-node-lease/leases/n1", None),
        ("GET", f"{_LEASES}/kube-node-lease/leases/n2", "can only access node lease with the same name"),
        ("GET", f"{_LEASES}/kube-system/leases/n1", 'can only access leases in the "kube-node-lease" system'),
        ("GET", "/apis/storage.k8s.io/v1/csinodes/n2", "can only access CSINode with the same name"),
        ("GET", f"{_CORE}/services", None),
        ("GET", "/apis/apps/v1/deployments", 'cannot list resource "deployments"'),
    ],
)
async def test_nodes_may_read_only_objects_of_their_pods(
    client: httpx.AsyncClient, method: str, path: str, reason: str | None
) -> None:
    answer = await client.request(method, path, headers=_NODE)
    if reason is None:
        assert answer.status_code in (200, 404), answer.text
    else:
        assert answer.status_code == 403
        assert reason in answer.json()["message"]


async def test_a_node_loses_access_to_objects_of_deleted_pods(client: httpx.AsyncClient) -> None:
    pod = _pod("short", "n1", volumes=[_volume("s", secret={"secretName": "lent"})])
    for _ in range(2):
        assert (await client.get(f"{_SECRETS}/lent", headers=_NODE)).status_code == 403
        assert (await client.post(_PODS, json=pod)).status_code == 201
        assert (await client.get(f"{_SECRETS}/lent", headers=_NODE)).status_code == 404
        await client.delete(f"{_PODS}/short?gracePeriodSeconds=0")
    nameless = {"impersonate-user": "system:node:", "impersonate-group": "system:nodes"}
    answer = (await client.get(f"{_SECRETS}/lent", headers=nameless)).json()
    assert answer["message"].endswith('unknown node for user "system:node:"')


async def test_a_mirror_pod_gives_no_access_to_secrets(client: httpx.AsyncClient) -> None:
    pod = _pod("mirror", "n1", volumes=[_volume("s", secret={"secretName": "wanted"})])
    pod["metadata"]["annotations"] = _MIRROR
    assert (await client.post(_PODS, json=pod)).status_code == 201
    assert (await client.get(f"{_SECRETS}/wanted", headers=_NODE)).status_code == 403


def _mirror_metadata(uid: str, **changes: Any) -> JsonObject:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid, "controller": True, **changes}
    return {"annotations": _MIRROR, "ownerReferences": [owner]}


async def test_a_node_creates_only_its_own_mirror_pods(client: httpx.AsyncClient) -> None:
    uid = (await client.get(f"{_CORE}/nodes/n1")).json()["metadata"]["uid"]
    cases: tuple[tuple[str, JsonObject, JsonObject, str | None], ...] = (
        (
            "n1",
            {},
            {},
            'pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create',
        ),
        ("n2", _mirror_metadata(uid), {}, 'node "n1" can only create pods with spec.nodeName set to itself'),
        ("n1", {"annotations": _MIRROR}, {}, "can only create pods with an owner reference set to itself"),
        (
            "n1",
            _mirror_metadata(uid, name="n2"),
            {},
            "can only create pods with an owner reference set to itself",
        ),
        (
            "n1",
            _mirror_metadata(uid, controller=False),
            {},
            "with a controller owner reference set to itself",
        ),
        ("n1", _mirror_metadata(uid, blockOwnerDeletion=True), {}, "must not set blockOwnerDeletion"),
        ("n1", _mirror_metadata("other"), {}, f"node n1 UID mismatch: expected other got {uid}"),
        (
            "n1",
            _mirror_metadata(uid),
            {"serviceAccountName": "default"},
            "can not create pods that reference serviceaccounts",
        ),
        (
            "n1",
            _mirror_metadata(uid),
            {"volumes": [_volume("v", csi={"driver": "d"})]},
            "csidrivers (via CSI volumes)",
        ),
        (
            "n1",
            _mirror_metadata(uid),
            {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]},
            "resourceclaims",
        ),
        ("n1", _mirror_metadata(uid), {}, None),
    )
    for node, meta, spec, reason in cases:
        pod = _pod("static", node, **spec)
        pod["metadata"] |= meta
        answer = await client.post(_PODS, json=pod, headers=_NODE)
        assert answer.status_code == (201 if reason is None else 403), answer.text
        assert reason is None or reason in answer.json()["message"]


_MERGE = {**_NODE, "content-type": "application/merge-patch+json"}


@each_case(
    ("path", "change", "reason"),
    [
        (f"{_PODS}/mine/status", {"status": {"phase": "Running"}}, None),
        (
            f"{_PODS}/theirs/status",
            {"status": {"phase": "Running"}},
            'pods "theirs" is forbidden: node "n1" can only update pod status for pods with spec.nodeName set to',
        ),
        (
            f"{_PODS}/mine/status",
            {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "other"}]}},
            'node "n1" cannot update resource claim statues',
        ),
        (
            f"{_CORE}/nodes/n2/status",
            {"status": {"phase": "x"}},
            'node "n1" is not allowed to modify node "n2"',
        ),
        (f"{_CORE}/nodes/n1", {"metadata": {"labels": {"gpu.example.com/x": "y"}}}, None),
        (f"{_CORE}/nodes/n1", {"metadata": {"labels": {"topology.kubernetes.io/zone": "z"}}}, None),
        (
            f"{_CORE}/nodes/n1",
            {"metadata": {"labels": {"node-restriction.kubernetes.io/a": "b", "x.k8s.io/y": "z"}}},
            "is not allowed to modify labels: node-restriction.kubernetes.io/a, x.k8s.io/y",
        ),
        (
            f"{_CORE}/nodes/n1",
            {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
            'node "n1" is not allowed to modify taints',
        ),
    ],
)
async def test_nodes_may_change_only_allowed_fields(
    client: httpx.AsyncClient, path: str, change: JsonObject, reason: str | None
) -> None:
    answer = await client.patch(path, json=change, headers=_MERGE)
    assert answer.status_code == (200 if reason is None else 403), answer.text
    assert reason is None or reason in answer.json()["message"]


async def test_a_node_cannot_change_slices_leases_and_pods_of_other_nodes(client: httpx.AsyncClient) -> None:
    spec = {"driver": "d.example", "pool": {"name": "q", "generation": 1, "resourceSliceCount": 1}}
    for node, name, code in (("n2", "a", 403), ("n1", "b", 201)):
        body = {"metadata": {"name": name}, "spec": {"nodeName": node, **spec}}
        answer = await client.post(_SLICES, json=body, headers=_NODE)
        assert answer.status_code == code
        assert code == 201 or "can only create ResourceSlice with the same NodeName" in answer.text
    lease = await client.post(
        f"{_LEASES}/kube-node-lease/leases", json={"metadata": {"name": "n2"}}, headers=_NODE
    )
    assert "can only access node lease with the same name as the requesting node" in lease.json()["message"]
    refused = await client.delete(f"{_PODS}/theirs", headers=_NODE)
    assert 'node "n1" can only delete pods with spec.nodeName set to itself' in refused.json()["message"]
    body = {"metadata": {"name": "theirs"}}
    refused = await client.post(f"{_PODS}/theirs/eviction", json=body, headers=_NODE)
    assert "node n1 can only evict pods with spec.nodeName set to itself" in refused.json()["message"]


async def test_a_node_gets_tokens_only_for_its_own_pods(client: httpx.AsyncClient) -> None:
    async def ask(name: str, uid: str, **spec: Any) -> str:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
        body = {"spec": {"boundObjectRef": reference if name else None, **spec}}
        path = f"{_CORE}/namespaces/default/serviceaccounts/default/token"
        answer = await client.post(path, json=body, headers=_NODE)
        return "" if answer.status_code == 201 else str(answer.json()["message"])

    mine, theirs = [
        (await client.get(f"{_PODS}/{name}")).json()["metadata"]["uid"] for name in ("mine", "theirs")
    ]
    assert await ask("mine", mine) == ""
    assert "node requested token not bound to a pod" in await ask("", "")
    assert "with a pod binding without a uid" in await ask("mine", "")
    assert "bound to a pod scheduled on a different node" in await ask("theirs", theirs)
    assert await ask("mine", mine, audiences=["vault"]) == (
        'serviceaccounts "default" is forbidden: audience "vault" not found in pod spec volume, '
        "system:node:n1 is not authorized to request tokens for this audience"
    )
    assert "node may only request 0 or 1 audiences" in await ask("mine", mine, audiences=["a", "b"])


def _csr(name: str) -> str:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject)
    signed = made.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return base64.b64encode(signed.public_bytes(Encoding.PEM)).decode()


@each_case(
    ("signer", "request_", "reason"),
    [
        ("kubernetes.io/kube-apiserver-client-kubelet", _csr("system:node:n1"), None),
        ("kubernetes.io/kubelet-serving", _csr("system:node:n1"), None),
        ("kubernetes.io/kube-apiserver-client", _csr("somebody"), None),
        (
            "kubernetes.io/kubelet-serving",
            _csr("system:node:n2"),
            "can only create a node CSR with CN=system:node:n1",
        ),
        (
            "kubernetes.io/kube-apiserver-client-kubelet",
            "bm90aGluZw==",
            "unable to parse csr: PEM block type must be CERTIFICATE REQUEST",
        ),
    ],
)
async def test_signing_requests_are_for_the_node_itself(
    client: httpx.AsyncClient, signer: str, request_: str, reason: str | None
) -> None:
    spec = {"signerName": signer, "request": request_, "usages": ["client auth"]}
    name = signer.partition("/")[2]
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    answer = await client.post(path, json={"metadata": {"name": name}, "spec": spec}, headers=_NODE)
    if reason is None:
        assert answer.status_code == 201, answer.text
    else:
        assert answer.status_code == 403
        assert answer.json()["message"] == (
            f'certificatesigningrequests.certificates.k8s.io "{name}" is forbidden: {reason}'
        )


async def test_an_access_review_for_a_node_considers_its_field_selector(client: httpx.AsyncClient) -> None:
    for value, allowed in (("n1", True), ("n2", False)):
        selected = {"requirements": [{"key": "spec.nodeName", "operator": "In", "values": [value]}]}
        wanted = {"verb": "list", "resource": "pods", "fieldSelector": selected}
        body = {"spec": {"user": "system:node:n1", "groups": ["system:nodes"], "resourceAttributes": wanted}}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        assert (await client.post(path, json=body)).json()["status"]["allowed"] is allowed


async def test_the_authorization_mode_flag_is_parsed_as_in_kube_apiserver() -> None:
    assert authorization_mode("Node,RBAC") == "Node,RBAC"
    for text, message in (
        ("ABAC", 'authorization-mode "ABAC" is not a valid mode'),
        ("RBAC,RBAC", "has mode specified more than once"),
    ):
        with pytest.raises(ValueError, match=message):
            authorization_mode(text)
