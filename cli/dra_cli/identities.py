"""Users and tokens of a cluster's services, named as upstream's components are, and what lets them work."""

import csv
import io
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dra_shared.client.errors import AlreadyExists
from dra_shared.client.rest import Client
from dra_shared.files import private_folder

from dra_cli.cluster import kubeconfig, replace

_MASTERS, _NODES = "system:masters", "system:nodes"
#: Who runs the cluster: the user of the cluster's kubeconfig.
ADMINISTRATOR = "kubernetes-admin"
_DRIVERS = "dralab:drivers"
_COMPONENTS = {"scheduler": "system:kube-scheduler", "controller": "system:kube-controller-manager"}
_RBAC = "rbac.authorization.k8s.io"

# What the node agent's drivers do, which charts grant to the service accounts of real ones.
_DRIVER_RULES: Sequence[dict[str, Any]] = (
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["resourceslices"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    },
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get"]},
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/status"], "verbs": ["update", "patch"]},
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["resourceclaims/driver"],
        "verbs": ["arbitrary-node:update", "arbitrary-node:patch"],
    },
    {"apiGroups": ["resource.k8s.io"], "resources": ["deviceclasses"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
)


class Identities:
    """A token for each service and node, new at every start, in files below ``folder`` that only their owner reads."""

    def __init__(self, folder: Path, nodes: Sequence[str]) -> None:
        self._folder = folder
        names = [ADMINISTRATOR, _DRIVERS, *_COMPONENTS.values()]
        names += [f"system:node:{name}" for name in nodes]
        self._tokens = {name: secrets.token_urlsafe(32) for name in names}
        self.serving = secrets.token_urlsafe(32)
        """What requests to the services' own ports need."""

    @property
    def token_file(self) -> Path:
        """The API server's ``--token-auth-file``."""
        return self._folder / "tokens.csv"

    @property
    def serving_file(self) -> Path:
        """The services' ``--serving-token-file``."""
        return self._folder / "serving.token"

    @property
    def administrator(self) -> str:
        """The administrator's token."""
        return self._tokens[ADMINISTRATOR]

    def kubeconfig_of(self, service: str) -> Path:
        """The service's ``--kubeconfig``."""
        return self._folder / f"{service}.kubeconfig"

    def write(self, server: str, authority: str = "") -> None:
        """Write the files, for services that reach the API server at that URL and know it by that certificate."""
        private_folder(self._folder)
        rows = io.StringIO()
        csv.writer(rows).writerows((token, name, "", _groups(name)) for name, token in self._tokens.items())
        replace(self.token_file, rows.getvalue().encode())
        for service, user in (*_COMPONENTS.items(), ("node-agent", _DRIVERS)):
            others = [name for name in self._tokens if service == "node-agent" and _groups(name) == _NODES]
            users = {name: self._tokens[name] for name in (user, *others)}
            replace(self.kubeconfig_of(service), kubeconfig(server, users, authority))
        replace(self.serving_file, self.serving.encode())

    async def grant(self, client: Client) -> None:
        """Let nodes and drivers work: no default role is bound to them, as upstream has an authorizer for nodes."""
        role = {"metadata": {"name": _DRIVERS}, "rules": list(_DRIVER_RULES)}
        await _create(client, "ClusterRole", "clusterroles", role)
        for name, given, subject in (
            (_DRIVERS, _DRIVERS, {"kind": "User", "name": _DRIVERS, "apiGroup": _RBAC}),
            ("dralab:nodes", "system:node", {"kind": "Group", "name": _NODES, "apiGroup": _RBAC}),
        ):
            binding = {
                "metadata": {"name": name},
                "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": given},
                "subjects": [subject],
            }
            await _create(client, "ClusterRoleBinding", "clusterrolebindings", binding)


def _groups(name: str) -> str:
    if name == ADMINISTRATOR:
        return _MASTERS
    return _NODES if name.startswith("system:node:") else ""


async def _create(client: Client, kind: str, plural: str, obj: dict[str, Any]) -> None:
    import orjson
    from dra_shared.client.errors import from_response

    body = {"apiVersion": f"{_RBAC}/v1", "kind": kind, **obj}
    answer = await client.raw("POST", f"/apis/{_RBAC}/v1/{plural}", content=orjson.dumps(body))
    if answer.status_code >= 400:
        error = from_response(answer.status_code, answer.content)
        if not isinstance(error, AlreadyExists):
            raise error
