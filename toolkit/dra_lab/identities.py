"""Users of a cluster's services, named like upstream's components, with their credentials and roles."""

import base64
import csv
import io
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from dra_kube.cluster import kubeconfig, replace
from dra_shared.files import private_folder

from dra_lab.certificates import Authority
from dra_lab.rights import AGENT, DRIVERS, driver_user, is_driver

_MASTERS, _NODES = "system:masters", "system:nodes"
#: The administrator of a cluster: the user of its kubeconfig.
ADMINISTRATOR = "kubernetes-admin"
_NODE = "system:node:"
#: The user name of each service.
COMPONENTS = {"scheduler": "system:kube-scheduler", "controller": "system:kube-controller-manager"}


class Identities:
    """Creates credentials for each service and node at every start, in files below ``folder`` that only their
    owner can read.

    The credentials are certificates if there is an ``authority``, and tokens otherwise.
    """

    def __init__(self, folder: Path, nodes: Sequence[str], authority: Authority | None = None) -> None:
        self._folder = folder
        self._authority = authority
        self._users: dict[str, Mapping[str, str]] = {}
        self._server = self._trusted = ""
        for name in (ADMINISTRATOR, *COMPONENTS.values(), *users_of_agent(nodes)):
            self.credential(name)
        self.serving = secrets.token_urlsafe(32) if authority is None else ""
        """The token for the services' own ports; empty if a certificate is enough."""

        self.supervising = secrets.token_urlsafe(32)
        """The token for the services' supervisor."""

    def credential(self, user: str) -> Mapping[str, str]:
        """Return the user's credential for a kubeconfig."""
        if user not in self._users:
            self._users[user] = self._make(user)
        return self._users[user]

    def _make(self, user: str) -> Mapping[str, str]:
        if self._authority is None:
            return {"token": secrets.token_urlsafe(32)}
        return issue_credentials(self._authority, user, groups_of(user))

    @property
    def token_file(self) -> Path:
        """The API server's ``--token-auth-file``."""
        return self._folder / "tokens.csv"

    @property
    def supervising_file(self) -> Path:
        """The API server's ``--supervisor-token-file``."""
        return self._folder / "supervisor.token"

    @property
    def serving_file(self) -> Path:
        """The services' ``--serving-token-file``."""
        return self._folder / "serving.token"

    @property
    def administrator(self) -> Mapping[str, str]:
        """The administrator's credential."""
        return self.credential(ADMINISTRATOR)

    def kubeconfig_of(self, service: str) -> Path:
        """Return the path of the service's kubeconfig."""
        return self._folder / f"{service}.kubeconfig"

    def write(self, server: str, authority: str = "") -> None:
        """Write the files for services that reach the API server at this URL and verify it with this certificate."""
        private_folder(self._folder)
        self._server, self._trusted = server, authority
        replace(self.supervising_file, self.supervising.encode())
        for service, user in COMPONENTS.items():
            self._write_kubeconfig(service, [user])
        if self._authority is not None:
            # Left over from a start with tokens.
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
        self._write_kubeconfig(service, users_of_agent(nodes))

    def _write_kubeconfig(self, service: str, users: Sequence[str]) -> None:
        entries = {user: self.credential(user) for user in users}
        replace(self.kubeconfig_of(service), kubeconfig(self._server, entries, self._trusted))


def node_user(name: str) -> str:
    """Return the user of the node's kubelet."""
    return f"{_NODE}{name}"


def users_of_agent(nodes: Sequence[str]) -> list[str]:
    """Return the users of a node agent: its own, which is first, and those of its nodes' kubelets and drivers."""
    return [AGENT, *(user for node in nodes for user in (node_user(node), driver_user(node)))]


def groups_of(user: str) -> Sequence[str]:
    """Return the groups in the user's credential."""
    if user == ADMINISTRATOR:
        return (_MASTERS,)
    if is_driver(user):
        return (DRIVERS,)
    return (_NODES,) if user.startswith(_NODE) else ()


def issue_credentials(authority: Authority, user: str, groups: Sequence[str]) -> Mapping[str, str]:
    """Return a new certificate for the user, in a kubeconfig's form."""
    made = authority.user(user, groups)
    return {
        "client-certificate-data": base64.b64encode(made.certificate).decode(),
        "client-key-data": base64.b64encode(made.key).decode(),
    }
