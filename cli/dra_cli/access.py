"""Which cluster a command means, and how to reach it: ``--data``, ``--kubeconfig``, ``--context``, ``--server``.

Commands that work with any Kubernetes cluster take all four (:func:`cluster_options`); those about a cluster's own
processes take ``--data`` alone (:func:`data_option`).
"""

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dra_cli.cluster import Cluster
from dra_cli.errors import CommandError

if TYPE_CHECKING:
    from dra_shared.client.kubeconfig import Access
    from dra_shared.client.rest import Client

    from dra_cli.reader import Reader

_DATA = ".dralab"
_HOME = Path("~/.kube/config")


def data_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--data``."""
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(os.environ.get("DRALAB_DATA") or _DATA),
        metavar="DIR",
        help="the cluster's directory: its state, logs, kubeconfig (default: DRALAB_DATA, or .dralab)",
    )


def cluster_options(parser: argparse.ArgumentParser) -> None:
    """Add the four options; see :func:`chosen_cluster`."""
    data_option(parser)
    parser.set_defaults(data=None)
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="a kubeconfig, for any cluster")
    parser.add_argument("--context", metavar="NAME", help="the kubeconfig's context to use")
    parser.add_argument("--server", "-s", metavar="URL", help="the API server's URL, without a kubeconfig")


@dataclass(frozen=True)
class ChosenCluster:
    """The cluster that a command's options mean."""

    data: Path | None = None
    """The directory of a cluster of ours; None for any other."""
    kubeconfig: Path | None = None
    context: str | None = None
    server: str | None = None

    def access(self) -> "Access":
        """The API server's address and the credentials for it.

        Raises:
            CommandError: no cluster runs in the directory, or the kubeconfig is of no use.
        """
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
            raise CommandError(str(error)) from error
        assert self.server is not None
        return Access(self.server.rstrip("/"))

    def reader(self) -> "Reader":
        """A client for commands that only read.

        Raises:
            CommandError: as for :meth:`access`.
        """
        from dra_cli.reader import Reader

        if self.data is not None:
            # Most often: a cluster of ours that needs no token, so that its kubeconfig says no more than this.
            server = Cluster(self.data).record().server
            if server.startswith("http://"):
                return Reader(server)
        access = self.access()
        return Reader(access.server, access.token, access.ssl_context, access.server_name)

    def client(self, user_agent: str = "dralab") -> "Client":
        """A client of its API server.

        Raises:
            CommandError: as for :meth:`access`.
        """
        return self.access().client(user_agent)


def chosen_cluster(chosen: argparse.Namespace) -> ChosenCluster:
    """The cluster that the options mean.

    An option decides. Without one it is the cluster that runs in ``DRALAB_DATA`` or ``.dralab``, else that of
    ``KUBECONFIG``.

    Raises:
        CommandError: the options contradict each other.
    """
    named = [flag for flag in ("kubeconfig", "context", "server") if getattr(chosen, flag)]
    if chosen.data is not None and named:
        raise CommandError(f"--data and --{named[0]} name two clusters: choose one", 2)
    if chosen.server and not (chosen.kubeconfig or chosen.context):
        return ChosenCluster(server=chosen.server)
    if named:
        file = chosen.kubeconfig or current_kubeconfig()
        return ChosenCluster(kubeconfig=file, context=chosen.context, server=chosen.server)
    if chosen.data is not None:
        return ChosenCluster(data=chosen.data)
    data = Path(os.environ.get("DRALAB_DATA") or _DATA)
    known = _known_kubeconfig()
    if known is not None and not Cluster(data).running():
        return ChosenCluster(kubeconfig=known)
    return ChosenCluster(data=data)


def current_kubeconfig() -> Path:
    """The file that kubectl would take."""
    return _known_kubeconfig() or _HOME.expanduser()


def _known_kubeconfig() -> Path | None:
    files = [Path(name) for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    return next((file for file in files if file.exists()), files[0] if files else None)


def _moved(access: "Access", server: str) -> "Access":
    import dataclasses

    return dataclasses.replace(access, server=server.rstrip("/"))
