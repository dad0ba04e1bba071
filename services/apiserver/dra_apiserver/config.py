"""The API server's options."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from dra_shared.features import FeatureGates


@dataclass(frozen=True, slots=True)
class Config:
    """`history` is how long revisions stay readable, in seconds; port 0 takes a free one."""

    listen: str = "127.0.0.1"
    port: int = 8080
    data: Path = Path(".dralab")
    relaxed: bool = False
    history: float = 300.0
    runtime_config: str = ""
    features: FeatureGates = field(default_factory=FeatureGates)
    event_ttl: float = 3600.0
    access_log: bool = False
    authorization_mode: str = "AlwaysAllow"

    @property
    def database(self) -> Path:
        """The database's file."""
        return self.data / "apiserver" / "dralab.sqlite3"
