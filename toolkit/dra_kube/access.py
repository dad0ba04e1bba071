"""A cluster that a command or a program means, and how to reach it: by its directory, a kubeconfig or a URL."""

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
    """The cluster's directory, where no option names one."""
    return Path(os.environ.get("DRALAB_DATA") or _DATA)


@dataclass(frozen=True)
class ChosenCluster:
    """The cluster that a command's options mean."""

    data: Path | None = None
    """The directory of a cluster of ours; None for any other."""
    kubeconfig: Path | None = None
    context: str | None = None
    server: str | None = None
    at: str = ""
    """The moment that is meant; empty for now."""

    def access(self) -> "Access":
        """The API server's address and the credentials for it; of a moment, the address of that.

        Raises:
            UserError: no cluster runs in the directory, the kubeconfig is of no use, or there is no such moment.
        """
        present = self._present()
        return _moved(present, f"{present.server}/at/{_revision(present, self.at)}") if self.at else present

    def _present(self) -> "Access":
        from dra_shared.client.kubeconfig import Access, KubeconfigError, load

        try:
            if self.data is not None:
                cluster = Cluster(self.data)
                cluster.record()
                return load(cluster.kubeconfig)
            if self.kubeconfig is not None:
                known = load(self.kubeconfig, self.context)
                return known if self.server is None else _moved(known, self.server)
        except KubeconfigError as error:
            raise UserError(str(error)) from error
        assert self.server is not None
        return Access(self.server.rstrip("/"))

    def reader(self) -> "Reader":
        """A client for commands that only read.

        Raises:
            UserError: as for :meth:`access`.
        """
        from dra_kube.reader import Reader

        if self.data is not None and not self.at:
            # Most often: a cluster of ours that needs no token, so that its kubeconfig says no more than this.
            server = Cluster(self.data).record().server
            if server.startswith("http://"):
                return Reader(server)
        return _reader(self.access())

    def client(self, user_agent: str = "dralab", retries: int = MAX_RETRIES) -> "Client":
        """A client of its API server.

        Raises:
            UserError: as for :meth:`access`.
        """
        return self.access().client(user_agent, retries=retries)


def choose_cluster(
    data: Path | None, kubeconfig: Path | None, context: str | None, server: str | None, at: str = ""
) -> ChosenCluster:
    """Return the cluster that is named, at the moment ``at``.

    Without a name it is the cluster that runs in ``DRALAB_DATA`` or ``.dralab``, else that of ``KUBECONFIG``.

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
    if known is not None and not Cluster(default_data()).running():
        return ChosenCluster(kubeconfig=known, at=at)
    return ChosenCluster(data=default_data(), at=at)


def current_kubeconfig() -> Path:
    """The file that kubectl would take."""
    return _known_kubeconfig() or _HOME.expanduser()


def _known_kubeconfig() -> Path | None:
    files = [Path(name) for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    return next((file for file in files if file.exists()), files[0] if files else None)


def _reader(access: "Access") -> "Reader":
    from dra_kube.reader import Reader

    return Reader(access.server, access.token, access.ssl_context, access.server_name)


def _revision(access: "Access", at: str) -> str:
    """The revision of a moment, so that all that a command reads is of the same one."""
    from dra_shared.client.errors import ApiError

    with _reader(access) as reader:
        try:
            found: str = reader.json("/history", {"at": at})["at"]["revision"]
        except ApiError as error:
            if error.code == 404:
                raise UserError(f"{access.server} keeps no history that --at could show") from error
            raise
    return found


def _moved(access: "Access", server: str) -> "Access":
    import dataclasses

    return dataclasses.replace(access, server=server.rstrip("/"))
