"""Certificates and kubeconfigs for users and remote nodes of a cluster that requires credentials."""

import base64
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from dra_kube.cluster import Cluster
from dra_lab.protection import Protection, Wanted, user_kubeconfig, write_node
from dra_shared.client.kubeconfig import users
from dra_shared.errors import UserError

_SERVER = "https://127.0.0.1:1"


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    made = Cluster(tmp_path / "c")
    protection = Protection(made.data / "auth", Wanted(tls=True, roles=True), ["node-0"])
    made.write_kubeconfig(_SERVER, protection.administrator, protection.authority_pem)
    return made


def _subject(entry: dict[str, str]) -> str:
    pem = base64.b64decode(entry["client-certificate-data"])
    return x509.load_pem_x509_certificate(pem).subject.rfc4514_string()


def test_a_kubeconfig_of_a_user_has_its_groups_and_the_server_name(cluster: Cluster) -> None:
    made = yaml.safe_load(user_kubeconfig(cluster, "jane", ["team", "other"], "https://lab.example:6443"))
    assert made["clusters"][0]["cluster"]["server"] == "https://lab.example:6443"
    assert _subject(made["users"][0]["user"]) == "CN=jane,O=other,O=team"


def test_the_agent_of_a_remote_node_has_only_the_identities_that_it_needs(
    cluster: Cluster, tmp_path: Path
) -> None:
    folder = tmp_path / "far"
    command = write_node(cluster, folder, "far", "192.0.2.9", None)
    assert "--node-name far --health-address 192.0.2.9" in command
    known = ["dralab:agent", "dralab:driver:far", "system:node:far"]
    assert sorted(users(folder / "kubeconfig")) == known
    served = x509.load_pem_x509_certificate((folder / "kubelet.crt").read_bytes())
    names = served.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "192.0.2.9" in map(str, names.get_values_for_type(x509.IPAddress))
    assert (folder / "ca.crt").read_text() == (cluster.data / "auth" / "ca.crt").read_text()
    with pytest.raises(UserError, match="'Far_1' is not a valid node name: a lowercase RFC 1123 subdomain"):
        write_node(cluster, tmp_path / "other", "Far_1", "192.0.2.9", None)
    assert not (tmp_path / "other").exists()


def test_a_user_kubeconfig_requires_a_cluster_with_certificates(tmp_path: Path) -> None:
    plain = Cluster(tmp_path)
    plain.write_kubeconfig(_SERVER)
    with pytest.raises(UserError, match="start it with `dralab up --tls`"):
        user_kubeconfig(plain, "jane", [], None)


def test_tokens_of_an_earlier_start_are_removed_by_a_start_with_certificates(tmp_path: Path) -> None:
    Protection(tmp_path, Wanted(roles=True), ["node-0"]).write(_SERVER)
    assert (tmp_path / "tokens.csv").exists()
    secured = Protection(tmp_path, Wanted(tls=True, roles=True), [])
    secured.write(_SERVER)
    secured.write_agent("node-agent-late", ["late-0"])
    assert not (tmp_path / "tokens.csv").exists()
    entry = yaml.safe_load((tmp_path / "node-agent-late.kubeconfig").read_text())["users"][1]["user"]
    assert _subject(entry) == "CN=system:node:late-0,O=system:nodes"
    assert "--client-ca-file" in secured.client_options("scheduler", _SERVER)
    assert "--token-auth-file" not in secured.apiserver_options()
