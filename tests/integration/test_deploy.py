"""The manifests in ``deploy/``: the API server accepts them, and the controllers and nodes run them."""

import base64
import importlib
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store
from dra_apiserver.main import options
from dra_apiserver.serviceaccount import KeyOptions, Keys
from dra_lab.deployment import secrets
from dra_lab.rights import objects
from dra_shared.jsontypes import JsonObject
from dra_shared.service import Options
from dralab.testing import Cluster

from tests.support.reference import REPOSITORY

pytestmark = pytest.mark.system


_DEPLOY = REPOSITORY / "deploy"
_NAMESPACE = "dralab"


def _objects() -> list[JsonObject]:
    files = yaml.safe_load((_DEPLOY / "kustomization.yaml").read_text())["resources"]
    return [obj for file in files for obj in yaml.safe_load_all((_DEPLOY / file).read_text())]


def _containers() -> list[tuple[str, JsonObject, JsonObject]]:
    """Yield each service with its pod's spec and its container."""
    specs = [obj["spec"]["template"]["spec"] for obj in _objects() if "template" in obj.get("spec", {})]
    return [(spec["containers"][0]["name"], spec, spec["containers"][0]) for spec in specs]


@pytest.fixture(scope="module")
def deploy_secrets(tmp_path_factory: pytest.TempPathFactory) -> list[JsonObject]:
    nodes = ["dralab-node-agent-0", "dralab-node-agent-1"]
    return secrets(tmp_path_factory.mktemp("pki"), _NAMESPACE, nodes, ["lab.example"])


@pytest.mark.parametrize("service", ["apiserver", "scheduler", "controller", "node-agent"])
def test_every_option_in_the_manifests_exists(service: str) -> None:
    module = importlib.import_module(f"dra_{service.replace('-', '_')}.main")
    known: Options = module.options()
    (args,) = [container["args"] for name, _, container in _containers() if name == service]
    chosen = known.parse_args(args)
    assert chosen.client_ca_file == Path("/etc/dralab/ca.crt")


# The fields of a StatefulSet that an update may change (apps/validation.ValidateStatefulSetUpdate).
_CHANGEABLE = {"replicas", "ordinals", "template", "updateStrategy", "minReadySeconds"}


def test_postgresql_can_be_added_to_a_running_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    (patch,) = yaml.safe_load((_DEPLOY / "postgresql/kustomization.yaml").read_text())["patches"]
    patched = yaml.safe_load(patch["patch"])
    (there,) = [
        obj for obj in _objects() if obj["kind"] == "StatefulSet" and "apiserver" in obj["metadata"]["name"]
    ]
    assert patched["metadata"].items() <= there["metadata"].items()
    assert patched["spec"].keys() <= _CHANGEABLE
    (container,) = patched["spec"]["template"]["spec"]["containers"]
    assert container["name"] == there["spec"]["template"]["spec"]["containers"][0]["name"]
    (variable,) = container["env"]
    monkeypatch.setenv(variable["name"], "postgresql://of/a/secret")
    assert options().parse_args([]).database == "postgresql://of/a/secret"


def test_every_referenced_file_is_in_a_secret(deploy_secrets: list[JsonObject]) -> None:
    data = {secret["metadata"]["name"]: secret["data"] for secret in deploy_secrets}
    for service, spec, container in _containers():
        volumes = {one["name"]: one["secret"]["secretName"] for one in spec["volumes"] if "secret" in one}
        mounts = {one["mountPath"]: volumes.get(one["name"]) for one in container["volumeMounts"]}
        for argument in container["args"]:
            path = argument.partition("=")[2]
            if path.startswith("/etc/dralab/"):
                assert path.removeprefix("/etc/dralab/") in data[mounts["/etc/dralab"] or ""], service
    assert sorted(data["dralab-nodes"]) == [f"dralab-node-agent-{number}.kubeconfig" for number in (0, 1)]
    for name, files in data.items():
        assert "ca.key" not in files, name


def test_certificates_name_the_server_of_the_kubeconfig(deploy_secrets: list[JsonObject]) -> None:
    data = {secret["metadata"]["name"]: secret["data"] for secret in deploy_secrets}
    document = yaml.safe_load(base64.b64decode(data["dralab-scheduler"]["kubeconfig"]))
    cluster = document["clusters"][0]["cluster"]
    assert cluster["server"] == "https://dralab-apiserver.dralab.svc:6443"
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    store = Store([x509.load_pem_x509_certificate(authority.encode())])
    served = x509.load_pem_x509_certificate(base64.b64decode(data["dralab-apiserver"]["tls.crt"]))
    for name in ("dralab-apiserver.dralab.svc", "lab.example"):
        PolicyBuilder().store(store).build_server_verifier(x509.DNSName(name)).verify(served, [])


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on the PATH")
def test_the_postgresql_component_runs_two_api_servers(tmp_path: Path) -> None:
    shutil.copytree(_DEPLOY, tmp_path / "deploy")
    with (tmp_path / "deploy" / "kustomization.yaml").open("a") as file:
        file.write("components:\n- postgresql\n")
    built = subprocess.run(
        ["kubectl", "kustomize", tmp_path / "deploy"], check=True, capture_output=True, text=True
    )
    servers = next(
        obj
        for obj in yaml.safe_load_all(built.stdout)
        if (obj["kind"], obj["metadata"]["name"]) == ("StatefulSet", "dralab-apiserver")
    )
    assert servers["spec"]["replicas"] == 2
    (container,) = servers["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [
        {
            "name": "DRALAB_APISERVER_DATABASE",
            "valueFrom": {"secretKeyRef": {"name": "dralab-database", "key": "url"}},
        }
    ]


def test_generating_secrets_again_keeps_the_key_that_signs_tokens(tmp_path: Path) -> None:
    first, second = (
        {one["metadata"]["name"]: one["data"] for one in secrets(tmp_path, _NAMESPACE, [], [])}
        for _ in range(2)
    )
    for file in ("sa.key", "sa.pub"):
        assert first["dralab-apiserver"][file] == second["dralab-apiserver"][file]
    assert first["dralab-apiserver"]["tls.key"] != second["dralab-apiserver"]["tls.key"]
    files = [tmp_path / name for name in ("sa.key", "sa.pub")]
    files[1].write_bytes(base64.b64decode(first["dralab-apiserver"]["sa.pub"]))
    keys = Keys(KeyOptions(tmp_path / "unused", files[0], (files[1],)))
    assert len(keys.public_keys) == 1


def test_roles_in_the_manifests_are_those_of_dralab_up() -> None:
    assert list(yaml.safe_load_all((_DEPLOY / "inside" / "rights.yaml").read_text())) == objects()


def _bound_claim(claim: str) -> tuple[JsonObject, JsonObject]:
    """Return a claim and its volume, bound as by a storage provisioner."""
    spec: JsonObject = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    size = {"storage": "2Gi"}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": claim},
        "spec": {
            **spec,
            "capacity": size,
            "claimRef": {"namespace": _NAMESPACE, "name": claim},
            "csi": {"driver": "disk.example.com", "volumeHandle": claim},
        },
    }
    annotations = {"pv.kubernetes.io/bind-completed": "yes"}
    return volume, {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim, "namespace": _NAMESPACE, "annotations": annotations},
        "spec": {**spec, "volumeName": claim, "resources": {"requests": size}},
    }


@pytest.mark.dra_cluster(scope="module")
def test_the_manifests_run_on_a_simulated_cluster(
    dra_cluster: Cluster, deploy_secrets: list[JsonObject]
) -> None:
    claims = ("data-dralab-apiserver-0", "data-dralab-node-agent-0", "data-dralab-node-agent-1")
    dra_cluster.apply(
        _objects()[0], *deploy_secrets, *(obj for claim in claims for obj in _bound_claim(claim))
    )
    dra_cluster.apply(*_objects()[1:])
    for kind, name, replicas in (
        ("statefulset", "apiserver", 1),
        ("deployment", "scheduler", 2),
        ("deployment", "controller", 2),
        ("statefulset", "node-agent", 2),
    ):

        def ready(kind: str = kind, name: str = name, replicas: int = replicas) -> bool:
            found = dra_cluster.get(f"{kind}/dralab-{name}", namespace=_NAMESPACE)
            return bool(found["status"].get("readyReplicas") == replicas)

        dra_cluster.until(ready)
    names = ("dralab-apiserver", "dralab-scheduler", "dralab-controller")

    def allowed_disruptions() -> dict[str, int]:
        budgets = dra_cluster.list("poddisruptionbudgets", namespace=_NAMESPACE)
        return {
            one["metadata"]["name"]: one.get("status", {}).get("disruptionsAllowed", 0) for one in budgets
        }

    # The disruption controller counts the ready pods some time later.
    dra_cluster.until(
        lambda: allowed_disruptions() == dict.fromkeys(names, 1), what="a disruption allowed by each budget"
    )
