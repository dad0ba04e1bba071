"""Users of a cluster's services, named as upstream's components are, their credentials, and what lets them work."""

import base64
import csv
import io
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dra_shared.client.errors import AlreadyExists
from dra_shared.client.rest import Client
from dra_shared.files import private_folder

from dra_cli.certificates import Authority
from dra_cli.cluster import kubeconfig, replace

_MASTERS, _NODES = "system:masters", "system:nodes"
#: Who runs the cluster: the user of the cluster's kubeconfig.
ADMINISTRATOR = "kubernetes-admin"
#: The node agent, and the drivers that it runs.
AGENT = "dralab:drivers"
_NODE = "system:node:"
#: Who each service is.
COMPONENTS = {"scheduler": "system:kube-scheduler", "controller": "system:kube-controller-manager"}
_NODE_BINDING = "dralab:nodes"
_RBAC = "rbac.authorization.k8s.io"

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
    # One watch for all of an agent's nodes: by its own identity, each would watch for itself.
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
    {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["kube-root-ca.crt"],
        "verbs": ["list", "watch"],
    },
)


class Identities:
    """Credentials for each service and node, new at every start, in files below ``folder`` that only their owner reads.

    They are certificates of the ``authority`` where there is one, else tokens.
    """

    def __init__(self, folder: Path, nodes: Sequence[str], authority: Authority | None = None) -> None:
        self._folder = folder
        self._authority = authority
        self._users: dict[str, Mapping[str, str]] = {}
        self._server = self._trusted = ""
        for name in (ADMINISTRATOR, AGENT, *COMPONENTS.values(), *map(node_user, nodes)):
            self.credential(name)
        self.serving = secrets.token_urlsafe(32) if authority is None else ""
        """What requests to the services' own ports need; empty where a certificate will do."""

    def credential(self, user: str) -> Mapping[str, str]:
        """The user's entry in a kubeconfig."""
        if user not in self._users:
            self._users[user] = self._make(user)
        return self._users[user]

    def _make(self, user: str) -> Mapping[str, str]:
        if self._authority is None:
            return {"token": secrets.token_urlsafe(32)}
        return certified(self._authority, user, groups_of(user))

    @property
    def token_file(self) -> Path:
        """The API server's ``--token-auth-file``."""
        return self._folder / "tokens.csv"

    @property
    def serving_file(self) -> Path:
        """The services' ``--serving-token-file``."""
        return self._folder / "serving.token"

    @property
    def administrator(self) -> Mapping[str, str]:
        """The administrator's credential."""
        return self.credential(ADMINISTRATOR)

    def kubeconfig_of(self, service: str) -> Path:
        """The service's ``--kubeconfig``."""
        return self._folder / f"{service}.kubeconfig"

    def write(self, server: str, authority: str = "") -> None:
        """Write the files, for services that reach the API server at that URL and know it by that certificate."""
        private_folder(self._folder)
        self._server, self._trusted = server, authority
        for service, user in COMPONENTS.items():
            self._write_kubeconfig(service, [user])
        if self._authority is not None:
            # Of a start with tokens.
            self.token_file.unlink(missing_ok=True)
            self.serving_file.unlink(missing_ok=True)
            return
        rows = io.StringIO()
        csv.writer(rows).writerows(
            (entry["token"], name, "", ",".join(groups_of(name))) for name, entry in self._users.items()
        )
        replace(self.token_file, rows.getvalue().encode())
        replace(self.serving_file, self.serving.encode())

    def write_agent(self, service: str, nodes: Sequence[str]) -> None:
        """Write the kubeconfig of a node agent, which has the credentials of its nodes and of their drivers."""
        self._write_kubeconfig(service, [AGENT, *map(node_user, nodes)])

    def _write_kubeconfig(self, service: str, users: Sequence[str]) -> None:
        entries = {user: self.credential(user) for user in users}
        replace(self.kubeconfig_of(service), kubeconfig(self._server, entries, self._trusted))

    async def grant(self, client: Client, *, nodes: bool) -> None:
        """Let drivers work, and ``nodes``, where no authorizer is for them: no default role is bound to them."""
        await _create(client, "ClusterRole", "clusterroles", drivers_role())
        await _bind(client, AGENT, AGENT, {"kind": "User", "name": AGENT, "apiGroup": _RBAC})
        if nodes:
            group = {"kind": "Group", "name": _NODES, "apiGroup": _RBAC}
            await _bind(client, _NODE_BINDING, "system:node", group)
        else:
            # Of an earlier start, it would give every node all that any node may have.
            await client.raw("DELETE", f"/apis/{_RBAC}/v1/clusterrolebindings/{_NODE_BINDING}")


def drivers_role() -> dict[str, Any]:
    """What node agents' drivers do, which charts grant to the service accounts of real ones."""
    return {"metadata": {"name": AGENT}, "rules": list(_DRIVER_RULES)}


def node_user(name: str) -> str:
    """The user that the node's kubelet is."""
    return f"{_NODE}{name}"


def groups_of(user: str) -> Sequence[str]:
    """The groups that the user's credential has to name."""
    if user == ADMINISTRATOR:
        return (_MASTERS,)
    return (_NODES,) if user.startswith(_NODE) else ()


def certified(authority: Authority, user: str, groups: Sequence[str]) -> Mapping[str, str]:
    """A new certificate for the user, as a kubeconfig has it."""
    made = authority.user(user, groups)
    return {
        "client-certificate-data": base64.b64encode(made.certificate).decode(),
        "client-key-data": base64.b64encode(made.key).decode(),
    }


async def _bind(client: Client, name: str, role: str, subject: dict[str, Any]) -> None:
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }
    await _create(client, "ClusterRoleBinding", "clusterrolebindings", binding)


async def _create(client: Client, kind: str, plural: str, obj: dict[str, Any]) -> None:
    import orjson
    from dra_shared.client.errors import from_response

    body = {"apiVersion": f"{_RBAC}/v1", "kind": kind, **obj}
    answer = await client.raw("POST", f"/apis/{_RBAC}/v1/{plural}", content=orjson.dumps(body))
    if answer.status_code >= 400:
        error = from_response(answer.status_code, answer.content)
        if not isinstance(error, AlreadyExists):
            raise error
