"""The cluster that a command or a program works with: chosen by directory, kubeconfig or URL."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dra_shared.client.retry import MAX_RETRIES
from dra_shared.errors import UserError

from dra_kube.cluster import Cluster

if TYPE_CHECKING:
    from dra_shared.client.kubeconfig import Access
    from dra_shared.client.rest import Client

    from dra_kube.reader import Reader

_DATA = ".dralab"
_HOME = Path("~/.kube/config")


def default_data() -> Path:
    """Return the cluster's directory if no option names one."""
    return Path(os.environ.get("DRALAB_DATA") or _DATA)


@dataclass(frozen=True)
class ChosenCluster:
    """The cluster that a command's options choose."""

    data: Path | None = None
    """The directory of a dralab cluster; None for any other cluster."""
    kubeconfig: Path | None = None
    context: str | None = None
    server: str | None = None
    at: str = ""
    """The moment in the cluster's history; empty for the present."""

    def access(self) -> "Access":
        """Return the API server's address and credentials. For a moment in history, the address selects it.

        Raises:
            UserError: no cluster runs in the directory, the kubeconfig cannot be used, or there is no such moment.
        """
        present = self._present()
        return (
            _with_server(present, f"{present.server}/at/{_revision(present, self.at)}")
            if self.at
            else present
        )

    def _present(self) -> "Access":
        from dra_shared.client.kubeconfig import Access, KubeconfigError, load

        try:
            if self.data is not None:
                cluster = Cluster(self.data)
                cluster.record()
                return load(cluster.kubeconfig)
            if self.kubeconfig is not None:
                known = load(self.kubeconfig, self.context)
                return known if self.server is None else _with_server(known, self.server)
        except KubeconfigError as error:
            raise UserError(str(error)) from error
        assert self.server is not None
        return Access(self.server.rstrip("/"))

    def reader(self) -> "Reader":
        """Return a client for commands that only read.

        Raises:
            UserError: as for :meth:`access`.
        """
        from dra_kube.reader import Reader

        if self.data is not None and not self.at:
            # The usual case: the cluster needs no token, so its kubeconfig has nothing but the address. Parsing the
            # kubeconfig would cost most of a short command's time.
            server = Cluster(self.data).record().server
            if server.startswith("http://"):
                return Reader(server)
        return _reader(self.access())

    def client(self, user_agent: str = "dralab", retries: int = MAX_RETRIES) -> "Client":
        """Return a client of the API server.

        Raises:
            UserError: as for :meth:`access`.
        """
        return self.access().client(user_agent, retries=retries)


def choose_cluster(
    data: Path | None, kubeconfig: Path | None, context: str | None, server: str | None, at: str = ""
) -> ChosenCluster:
    """Return the chosen cluster, at the moment ``at``.

    If nothing is chosen, it is the cluster that runs in ``DRALAB_DATA`` or ``.dralab``, else that of ``KUBECONFIG``.

    Raises:
        UserError: two clusters are named.
    """
    options = {"kubeconfig": kubeconfig, "context": context, "server": server}
    named = [flag for flag, value in options.items() if value]
    if data is not None and named:
        raise UserError(f"--data and --{named[0]} name two clusters: choose one", 2)
    if server and not (kubeconfig or context):
        return ChosenCluster(server=server, at=at)
    if named:
        file = kubeconfig or current_kubeconfig()
        return ChosenCluster(kubeconfig=file, context=context, server=server, at=at)
    if data is not None:
        return ChosenCluster(data=data, at=at)
    known = _known_kubeconfig()
    if known is not None and not Cluster(default_data()).is_running():
        return ChosenCluster(kubeconfig=known, at=at)
    return ChosenCluster(data=default_data(), at=at)


def current_kubeconfig() -> Path:
    """Return the kubeconfig that kubectl would use."""
    return _known_kubeconfig() or _HOME.expanduser()


def _known_kubeconfig() -> Path | None:
    files = [Path(name) for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    return next((file for file in files if file.exists()), files[0] if files else None)


def _reader(access: "Access") -> "Reader":
    from dra_kube.reader import Reader

    return Reader(access.server, access.token, access.ssl_context, access.server_name)


def _revision(access: "Access", at: str) -> str:
    """Return the revision of the moment, so that everything that a command reads is of the same revision."""
    from dra_shared.client.errors import ApiError

    with _reader(access) as reader:
        try:
            found: str = reader.json("/history", {"at": at})["at"]["revision"]
        except ApiError as error:
            if error.code == 404:
                raise UserError(f"{access.server}has no history, which --at needs") from error
            raise
    return found


def _with_server(access: "Access", server: str) -> "Access":
    import dataclasses

    return dataclasses.replace(access, server=server.rstrip("/"))
