"""Alembic migrations of the database, run when the API server opens an older one."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection


def config(connection: Connection | None = None) -> Config:
    """Return Alembic's configuration for this package's migrations, on an open connection."""
    made = Config()
    made.set_main_option("script_location", str(Path(__file__).parent))
    made.attributes["connection"] = connection
    return made


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Migrate the database to `revision`."""
    command.upgrade(config(connection), revision)
