"""Read the address of an API server and a user's credentials from a kubeconfig file.

Unlike client-go, proxies, user names with passwords and impersonation are ignored. Credential plugins
(``exec``, ``auth-provider``) are rejected, because their credentials are not available.
"""

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dra_shared.client.rest import Client


class KubeconfigError(ValueError):
    """The file can't be read, or lacks a required entry. The message names the file."""


@dataclass(frozen=True)
class Access:
    """One API server and the credentials for it."""

    server: str
    token: str | None = None
    ssl_context: ssl.SSLContext | None = None
    bare_context: ssl.SSLContext | None = None
    """Like ``ssl_context``, but without the user's certificate, which would identify every request as that user."""
    server_name: str | None = None
    """The expected name in the server's certificate, if it is not the host of ``server``."""
    authority: str = ""
    """The CA certificates, as PEM, that verify the server; empty for those of the system."""
    token_file: Path | None = None
    """The file of a token that may be renewed; None if the token is fixed."""

    def client(self, user_agent: str, read_url: str = "", retries: int = 0) -> "Client":
        """Return a client of the server with these credentials.

        It lists and watches at ``read_url`` if that is set.
        """
        from dra_shared.client.rest import Client

        return Client(
            self.server,
            user_agent=user_agent,
            token=self.token,
            ssl_context=self.ssl_context,
            bare_context=self.bare_context,
            server_name=self.server_name,
            read_url=read_url,
            retries=retries,
        )


#: Where a pod has its service account's token.
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def in_cluster(directory: Path = SERVICE_ACCOUNT, environment: Mapping[str, str] = os.environ) -> Access:
    """Return the access of a pod (InClusterConfig of k8s.io/client-go/rest).

    Raises:
        KubeconfigError: the process does not run in a pod, or has no service account token.
    """
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise KubeconfigError("no kubeconfig is given, and this process does not run in a pod")
    token_file = directory / "token"
    try:
        token = token_file.read_text().strip()
        authority = (directory / "ca.crt").read_text()
        tls = ssl.create_default_context(cadata=authority)
    except OSError as error:
        raise KubeconfigError(f"cannot use the service account of this pod: {error}") from error
    address = f"[{host}]" if ":" in host else host
    return Access(f"https://{address}:{port}", token, tls, tls, authority=authority, token_file=token_file)


def load(path: Path, context: str | None = None) -> Access:
    """Return the access of ``context``, or of the file's current context.

    Raises:
        KubeconfigError: the file is unusable.
    """

    file = _read(path)
    cluster, user = file.select_context(context)
    return file.access(cluster, file.find("user", user) if user else {})


def users(path: Path) -> dict[str, Access]:
    """Return the access to the current context's cluster for each user with a credential, by name.

    Raises:
        KubeconfigError: the file is unusable.
    """
    file = _read(path)
    cluster, _ = file.select_context(None)
    found: dict[str, Access] = {}
    for name in file.names("user"):
        user = file.find("user", name)
        if any(user.get(credential) for credential in _CREDENTIALS):
            found[name] = file.access(cluster, user)
    return found


_CREDENTIALS = ("token", "tokenFile", "client-certificate-data", "client-certificate")


def _read(path: Path) -> "_File":
    from dra_shared.boundedfiles import read_file
    from dra_shared.yamltext import YamlError
    from dra_shared.yamltext import load as load_yaml

    try:
        document = load_yaml(read_file(path)).value
    except OSError as error:
        raise KubeconfigError(f"cannot read kubeconfig {path}: {error.strerror}") from error
    except YamlError as error:
        raise KubeconfigError(f"{path}: {error}") from error
    if not isinstance(document, dict):
        raise KubeconfigError(f"{path} is not a kubeconfig")
    return _File(path, document)


@dataclass(frozen=True)
class _File:
    path: Path
    document: dict[str, Any]

    def select_context(self, context: str | None) -> tuple[dict[str, Any], str]:
        """Return the context's cluster, and its user's name."""
        found = self.find("context", context or str(self.document.get("current-context") or ""))
        return self.find("cluster", str(found.get("cluster", ""))), str(found.get("user") or "")

    def names(self, what: str) -> list[str]:
        entries = self.document.get(f"{what}s")
        listed = entries if isinstance(entries, list) else []
        return [str(entry["name"]) for entry in listed if isinstance(entry, dict) and "name" in entry]

    def find(self, what: str, name: str) -> dict[str, Any]:
        entries = self.document.get(f"{what}s")
        for entry in entries if isinstance(entries, list) else []:
            if isinstance(entry, dict) and entry.get("name") == name:
                found = entry.get(what)
                return found if isinstance(found, dict) else {}
        raise KubeconfigError(f'{self.path}: {what} "{name}" does not exist')

    def access(self, cluster: dict[str, Any], user: dict[str, Any]) -> Access:
        server = cluster.get("server")
        if not server:
            raise KubeconfigError(f"{self.path}: the cluster has no server")
        for unknown in ("exec", "auth-provider"):
            if user.get(unknown):
                raise KubeconfigError(f"{self.path}: the user's {unknown} is not supported: give a token")
        name = cluster.get("tls-server-name")
        try:
            secure = str(server).startswith("https:")
            bare = self._tls(cluster) if secure else None
            tls = self._client_context(cluster, user) or bare if secure else None
            token = self._token(user)
            authority = (self._content(cluster, "certificate-authority") or b"").decode()
        except (OSError, binascii.Error, UnicodeDecodeError) as error:
            raise KubeconfigError(f"{self.path}: {error}") from error
        return Access(str(server), token, tls, bare, str(name) if name else None, authority)

    def _token(self, user: dict[str, Any]) -> str | None:
        if user.get("token"):
            return str(user["token"])
        if user.get("tokenFile"):
            return self._relative(user["tokenFile"]).read_text().strip()
        return None

    def _client_context(self, cluster: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext | None:
        """Return a TLS context with the user's certificate, or None if the user has none."""
        certificate, key = self._content(user, "client-certificate"), self._content(user, "client-key")
        if not (certificate and key):
            return None
        context = self._tls(cluster)
        load_chain(context, (certificate, key))
        return context

    def _tls(self, cluster: dict[str, Any]) -> ssl.SSLContext:
        authority = self._content(cluster, "certificate-authority")
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
        if cluster.get("insecure-skip-tls-verify"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def _content(self, entry: dict[str, Any], name: str) -> bytes | None:
        if entry.get(f"{name}-data"):
            return base64.b64decode(str(entry[f"{name}-data"]), validate=True)
        if entry.get(name):
            return self._relative(entry[name]).read_bytes()
        return None

    def _relative(self, name: Any) -> Path:
        return self.path.parent / str(name)


def load_chain(context: ssl.SSLContext, parts: Iterable[bytes]) -> None:
    """Load a certificate and its key, both PEM, into the context."""
    # OpenSSL reads a certificate and its key only from files. This file is readable by its owner only.
    with tempfile.NamedTemporaryFile(suffix=".pem") as both:
        both.write(b"\n".join(parts))
        both.flush()
        context.load_cert_chain(both.name)
