"""The certificates and tokens that protect a cluster, and the options with which its services use them."""

import base64
import datetime
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dra_kube.cluster import Cluster, kubeconfig, replace
from dra_shared.client.kubeconfig import load, load_chain
from dra_shared.client.rest import Client
from dra_shared.errors import UserError

from dra_lab.certificates import Authority, Certificate
from dra_lab.identities import Identities, groups_of, issue_credentials, node_user, users_of_agent
from dra_lab.rights import grant

_ANY_ADDRESS = frozenset({"", "0.0.0.0", "::"})


@dataclass(frozen=True)
class Wanted:
    """The wanted protection of a cluster.

    With ``tls``, users and services authenticate by certificates. With ``tokens``, the API server serves
    HTTPS, too, and requires a token. With ``roles``, every service has a user of its own, and with
    ``node_authorizer``, nodes need no role. ``hosts`` are additional names and addresses of the API server,
    which listens on ``listen``.
    """

    tls: bool = False
    tokens: bool = False
    roles: bool = False
    node_authorizer: bool = False
    hosts: Sequence[str] = ()
    listen: str = ""

    @property
    def secure(self) -> bool:
        """True if the API server serves HTTPS. Without it, kubectl and client-go do not send tokens."""
        return self.tls or self.tokens


class Protection:
    """The credentials of one cluster for ``nodes``, in files below ``folder``.

    Raises:
        UserError: the certificate authority in the folder cannot be used.
    """

    def __init__(self, folder: Path, wanted: Wanted, nodes: Sequence[str]) -> None:
        self._folder, self._wanted = folder, wanted
        self._authority: Authority | None = None
        self._identities: Identities | None = None
        if wanted.secure:
            # Use the real time, because clients verify certificates by the real time.
            self._authority = Authority.load_or_create(folder, datetime.datetime.now(datetime.UTC))
        if wanted.roles or wanted.secure:
            self._identities = Identities(folder, nodes, self._authority if wanted.tls else None)

    @property
    def scheme(self) -> str:
        """The scheme of the API server's URL."""
        return "https" if self._wanted.secure else "http"

    @property
    def service_scheme(self) -> str:
        """The scheme of the other services' URLs."""
        return "https" if self._wanted.tls else "http"

    @property
    def authority_pem(self) -> str:
        """The CA certificate for clients, as PEM; empty without HTTPS."""
        return self._authority.pem if self._authority is not None else ""

    @property
    def administrator(self) -> Mapping[str, str]:
        """The credential of the cluster's own kubeconfig; empty if it needs none."""
        return self._identities.administrator if self._identities and self._wanted.secure else {}

    @property
    def serving_token(self) -> str:
        """The token for the services' own ports; empty if they need none, or a certificate."""
        return self._identities.serving if self._identities and self._wanted.secure else ""

    @property
    def supervising_token(self) -> str:
        """The token for the services' supervisor; empty if it needs none."""
        return self._identities.supervising if self._identities is not None else ""

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context for the administrator's connections to the API server, or None without HTTPS."""
        if self._authority is None:
            return None
        context = ssl.create_default_context(cadata=self._authority.pem)
        entry = self.administrator
        if "client-key-data" in entry:
            parts = (entry[f"client-{part}-data"] for part in ("certificate", "key"))
            load_chain(context, map(base64.b64decode, parts))
        return context

    def service_context(self) -> ssl.SSLContext | None:
        """Return the TLS context for the administrator's connections to the other services."""
        return self.context() if self._wanted.tls else None

    def write(self, server: str) -> None:
        """Write the credentials of services that reach the API server at this URL."""
        if self._identities is not None:
            self._identities.write(server, self.authority_pem)

    def write_agent(self, service: str, nodes: Sequence[str]) -> None:
        """Write the credentials of a node agent that runs these nodes."""
        if self._identities is not None:
            self._identities.write_agent(service, nodes)

    async def grant(self, client: Client) -> None:
        """Create the roles of nodes and drivers, if the cluster uses roles."""
        if self._identities is not None and self._wanted.roles:
            await grant(client, nodes=not self._wanted.node_authorizer)

    def apiserver_options(self) -> list[str]:
        """Return the API server's options."""
        identities, authority, wanted = self._identities, self._authority, self._wanted
        if identities is None:
            return []
        words = [] if wanted.tls else ["--token-auth-file", str(identities.token_file)]
        words += ["--supervisor-token-file", str(identities.supervising_file)]
        if wanted.tokens:
            words += ["--anonymous-auth", "false"]
        if authority is None:
            return words
        hosts = [*wanted.hosts, *({wanted.listen} - _ANY_ADDRESS)]
        words += self._certificate_options("apiserver", authority.server("kube-apiserver", hosts))
        if wanted.hosts:
            words += ["--allowed-hosts", ",".join(wanted.hosts)]
        if not wanted.tls:
            return [*words, "--kubelet-token-file", str(identities.serving_file)]
        own = authority.user("kube-apiserver-kubelet-client", ["system:masters"])
        certificate, key = own.write(self._folder / "apiserver-kubelet-client")
        words += ["--client-ca-file", self._ca, "--kubelet-certificate-authority", self._ca]
        return [*words, "--kubelet-client-certificate", str(certificate), "--kubelet-client-key", str(key)]

    def client_options(self, service: str, server: str) -> list[str]:
        """Return the options of a service that is a client of the API server at that URL."""
        if self._identities is None:
            return ["--server", server]
        words = ["--kubeconfig", str(self._identities.kubeconfig_of(service))]
        if self._authority is not None and self._wanted.tls:
            words += self._certificate_options(service, self._authority.server(f"dralab-{service}"))
            words += ["--client-ca-file", self._ca]
        elif self._wanted.secure:
            words += ["--serving-token-file", str(self._identities.serving_file)]
        return words

    @property
    def _ca(self) -> str:
        return str(self._folder / "ca.crt")

    def _certificate_options(self, name: str, certificate: Certificate) -> list[str]:
        written = certificate.write(self._folder / name)
        return ["--tls-cert-file", str(written[0]), "--tls-private-key-file", str(written[1])]


def user_kubeconfig(cluster: Cluster, user: str, groups: Sequence[str], server: str | None) -> bytes:
    """Return a kubeconfig with a new certificate for a user in groups.

    Raises:
        UserError: the cluster was not started with certificates, or its authority cannot be used.
    """
    authority = _authority(cluster)
    entry = issue_credentials(authority, user, [*groups_of(user), *groups])
    return kubeconfig(server or load(cluster.kubeconfig).server, {user: entry}, authority.pem)


def write_node(cluster: Cluster, folder: Path, node: str, address: str, server: str | None) -> str:
    """Write the files for the agent of a node on another machine. Return the command that runs the agent there.

    Raises:
        UserError: as for :func:`user_kubeconfig`, or no node can have that name.
    """
    from dra_shared.names import dns_subdomain

    if problems := dns_subdomain(node):
        raise UserError(f"{node!r} is not a valid node name: {problems[0]}", 2)
    authority = _authority(cluster)
    users = {name: issue_credentials(authority, name, groups_of(name)) for name in users_of_agent([node])}
    reached = kubeconfig(server or load(cluster.kubeconfig).server, users, authority.pem)
    authority.server(node_user(node), [node, address]).write(folder / "kubelet")
    replace(folder / "ca.crt", authority.pem.encode())
    replace(folder / "kubeconfig", reached)
    return (
        f"dralab-node-agent --kubeconfig kubeconfig --node-name {node} --health-address {address}"
        " --health-port 10250 --tls-cert-file kubelet.crt --tls-private-key-file kubelet.key"
        " --client-ca-file ca.crt"
    )


def _authority(cluster: Cluster) -> Authority:
    folder = cluster.data / "auth"
    if not (folder / "ca.key").exists():
        raise UserError(f"{cluster.data} has no certificate authority: start it with `dralab up --tls`")
    return Authority.load_or_create(folder, datetime.datetime.now(datetime.UTC))
