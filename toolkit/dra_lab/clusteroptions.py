"""The options of a cluster, for ``dralab up``, other commands and tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dra_shared.api.resources import Resource
from dra_worlds.fleet import DEFAULT_GPUS, DEFAULT_POOL, Pool

from dra_lab.protection import Wanted


@dataclass(frozen=True)
class ClusterOptions:
    """The options of a cluster. The defaults are those of ``dralab up``."""

    nodes: int = 2
    apiservers: int = 1
    """The number of API servers. More than one need PostgreSQL as the database."""
    fleet: Sequence[Pool] = ()
    """Pools of nodes, in place of ``nodes``, ``gpus`` and ``drivers``."""
    gpus: str = DEFAULT_GPUS
    port: int = 8080
    listen: str = "127.0.0.1"
    drivers: Sequence[str] = field(default_factory=tuple)
    runtime: str = "fake"
    allow_host_access: bool = False
    relaxed: bool = False
    database: str = ""
    """The URL of the API server's database; empty for a file in the cluster's directory."""
    history: str = ""
    """The API server's ``--history``; empty for the value of the last start."""
    kubernetes_version: str = ""
    """The versions of Kubernetes, in the syntax of :mod:`dra_shared.serviceversions`; empty for the default."""
    feature_gates: str = ""
    runtime_config: str = ""
    authorization_mode: str = ""
    """Empty for the default: without ``tls``, everybody may do everything; see :meth:`authorizes`."""
    anonymous_auth: bool | None = None
    tls: bool = False
    """True if services and users authenticate by client certificates."""
    tls_hosts: Sequence[str] = ()
    """More names and addresses of the API server, for its certificate."""
    driver_options: Mapping[str, str] = field(default_factory=dict)
    gpu_models: Sequence[str] = field(default_factory=tuple)
    images: Sequence[Path] = field(default_factory=tuple)
    strict_images: bool = False
    scheduler_config: Path | None = None
    speed: float = 1.0
    """The speed of time for the services; 1 is real time."""
    grace: float | None = None
    """The longest grace period of pods in seconds; None for no limit."""
    log_level: str = "info"
    without: Sequence[str] = field(default_factory=tuple)
    operators: Sequence[str] = field(default_factory=tuple)
    """The operators whose kinds have controllers, as :mod:`dra_controller.jobkinds` names them."""
    node_sockets: bool | None = None
    """True if each node has all its sockets; None if only small clusters have them."""
    restored: Sequence[tuple[Resource[Any], dict[str, Any]]] = ()
    """Objects that the cluster starts with."""
    past: Path | None = None
    """A file with the history of another cluster, for an empty database (:mod:`dra_lab.restore.past`)."""
    snapshot: Path | None = None
    """The file of a snapshot that the cluster starts from."""

    @property
    def pools(self) -> list[Pool]:
        """The pools that the cluster starts with."""
        if self.fleet or not self.nodes:
            return list(self.fleet)
        return [Pool(name=DEFAULT_POOL, count=self.nodes, gpus=self.gpus, drivers=tuple(self.drivers))]

    @property
    def needs_token(self) -> bool:
        """True if the API server requires a token: by default, if pods run in a real container engine."""
        if self.anonymous_auth is None:
            return self.runtime == "docker" and not self.tls
        return not self.anonymous_auth

    @property
    def authorizes(self) -> str:
        """The mode of authorization."""
        return self.authorization_mode or ("Node,RBAC" if self.tls else "AlwaysAllow")

    @property
    def has_roles(self) -> bool:
        """True if RBAC decides on requests."""
        return "RBAC" in self.authorizes.split(",")

    @property
    def protection(self) -> Wanted:
        """Return the cluster's protection."""
        return Wanted(
            tls=self.tls,
            tokens=self.needs_token,
            roles=self.has_roles,
            node_authorizer="Node" in self.authorizes.split(","),
            hosts=self.tls_hosts,
            listen=self.listen,
        )
