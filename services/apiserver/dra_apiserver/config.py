"""The API server's options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dra_shared.features import FeatureGates
from dra_shared.guard import Guard
from dra_shared.retention import WINDOW, Retention
from dra_shared.servingtls import ServingTLS

from dra_apiserver.nodeaccess import NodeAccess
from dra_apiserver.serviceaccount import KeyOptions, TokenOptions
from dra_apiserver.storage.catalog import IN_DIRECTORY
from dra_apiserver.user import UserInfo

ALWAYS_ALLOW = "AlwaysAllow"
AUTHORIZATION_MODES = (ALWAYS_ALLOW, "Node", "RBAC")


def authorization_mode(text: str) -> str:
    """Return the text if it is a comma-separated list of modes.

    Raises:
        ValueError: it is not. The message is upstream's.
    """
    modes = text.split(",")
    for mode in modes:
        if mode not in AUTHORIZATION_MODES:
            raise ValueError(f'authorization-mode "{mode}" is not a valid mode')
        if modes.count(mode) > 1:
            raise ValueError(f'authorization-mode ["{mode}"] has mode specified more than once')
    return text


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """The audit policy and the log's settings: `audit/policy.py`, `audit/log.py`."""

    policy: Path
    path: str
    max_size: int = 0
    max_backups: int = 0
    max_age: int = 0
    compress: bool = False


@dataclass(frozen=True, slots=True)
class Config:
    """The API server's configuration.

    `history` is the number of seconds for which Kubernetes' clients can read revisions. Port 0 selects a free
    port. `retention` limits the archive; None keeps the database's last setting. `database` is the URL of the
    database (`storage/catalog.py`). `past` is a file with the history of another cluster; an empty database is
    filled from it. `nodes` describes how to reach nodes, and the scheduler is at `scheduler_url`. The
    supervisor of the services is at `supervisor_url`. Requests to it have the token of `supervisor_token_file`.
    `metrics_server` serves metrics.k8s.io. `tls` has the server's certificate. With `client_certificates`, a
    request without credentials has the user `system:anonymous`, as upstream; otherwise its user is the
    administrator. `tokens` are the settings of service account tokens; `signing_key` and `verifying_keys` are
    files (`serviceaccount/keys.py`).
    """

    listen: str = "127.0.0.1"
    port: int = 8080
    data: Path = Path(".dralab")
    database: str = IN_DIRECTORY
    relaxed: bool = False
    past: Path | None = None
    history: float = WINDOW
    retention: Retention | None = None
    runtime_config: str = ""
    features: FeatureGates = field(default_factory=FeatureGates)
    event_ttl: float = 3600.0
    access_log: bool = False
    authorization_mode: str = ALWAYS_ALLOW
    disabled_plugins: frozenset[str] = frozenset()
    anonymous_auth: bool = True
    nodes: NodeAccess = field(default_factory=NodeAccess)
    scheduler_url: str = ""
    supervisor_url: str = ""
    supervisor_token_file: Path | None = None
    metrics_server: bool = False
    tls: ServingTLS | None = None
    client_certificates: bool = False
    known_tokens: Mapping[str, UserInfo] = field(default_factory=dict)
    audit: AuditOptions | None = None
    tokens: TokenOptions = field(default_factory=TokenOptions)
    signing_key: Path | None = None
    verifying_keys: tuple[Path, ...] = ()
    guard: Guard = field(default_factory=Guard)

    @property
    def authorizes(self) -> tuple[str, ...]:
        """The authorization modes, in order; empty if every user may do everything."""
        modes = tuple(self.authorization_mode.split(","))
        return () if ALWAYS_ALLOW in modes else modes

    @property
    def directory(self) -> Path:
        """The folder with the server's files, such as its keys and the SQLite database."""
        return self.data / "apiserver"

    @property
    def keys(self) -> KeyOptions:
        """The keys of service accounts' tokens."""
        return KeyOptions(self.directory / "service-account.key", self.signing_key, self.verifying_keys)
