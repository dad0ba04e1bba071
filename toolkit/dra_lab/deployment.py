"""The Secrets that `deploy/` needs to run dralab's control plane in a Kubernetes cluster."""

import base64
import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dra_kube.cluster import kubeconfig

from dra_lab.certificates import Authority, Certificate, service_account_keys
from dra_lab.identities import ADMINISTRATOR, COMPONENTS, groups_of, issue_credentials, users_of_agent

_API_SERVER = "dralab-apiserver"
_PORT = 6443


def secrets(folder: Path, namespace: str, nodes: Sequence[str], hosts: Sequence[str]) -> list[dict[str, Any]]:
    """Return a Secret for each service, with new certificates from the authority in the folder.

    ``hosts`` are additional names of the API server. Each of the ``nodes`` gets its own kubeconfig.

    Raises:
        UserError: the certificate authority in the folder cannot be used.
    """
    authority = Authority.load_or_create(folder, datetime.datetime.now(datetime.UTC))
    home = f"{_API_SERVER}.{namespace}"
    names = [_API_SERVER, home, f"{home}.svc", f"{home}.svc.cluster.local", *hosts]
    inside = f"https://{home}.svc:{_PORT}"
    signing, verifying = service_account_keys(folder)
    kubelets = authority.user("kube-apiserver-kubelet-client", ["system:masters"])
    made = {
        _API_SERVER: {
            **_serving_files(authority, authority.server("kube-apiserver", names)),
            "kubelet-client.crt": kubelets.certificate,
            "kubelet-client.key": kubelets.key,
            "sa.key": signing,
            "sa.pub": verifying,
        },
        "dralab-node-agent": _serving_files(authority, authority.server("dralab-node-agent")),
        "dralab-nodes": {
            f"{node}.kubeconfig": _kubeconfig(authority, inside, users_of_agent([node])) for node in nodes
        },
        # The administrator reaches the API server through `kubectl port-forward`.
        "dralab-administrator": {
            "kubeconfig": _kubeconfig(authority, f"https://127.0.0.1:{_PORT}", [ADMINISTRATOR])
        },
    }
    for service, user in COMPONENTS.items():
        made[f"dralab-{service}"] = {
            **_serving_files(authority, authority.server(f"dralab-{service}")),
            "kubeconfig": _kubeconfig(authority, inside, [user]),
        }
    return [_secret(name, namespace, made[name]) for name in sorted(made)]


def _serving_files(authority: Authority, own: Certificate) -> dict[str, bytes]:
    return {"ca.crt": authority.pem.encode(), "tls.crt": own.certificate, "tls.key": own.key}


def _kubeconfig(authority: Authority, server: str, users: Sequence[str]) -> bytes:
    entries = {user: issue_credentials(authority, user, groups_of(user)) for user in users}
    return kubeconfig(server, entries, authority.pem)


def _secret(name: str, namespace: str, content: Mapping[str, bytes]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "type": "Opaque",
        "data": {key: base64.b64encode(value).decode() for key, value in content.items()},
    }
