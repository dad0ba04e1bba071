"""Create the tables of a new database, and migrate those of an older one."""

from __future__ import annotations

from dra_shared.log import logger
from sqlalchemy import Connection, inspect, text

from dra_apiserver.storage import schema
from dra_apiserver.storage.engine import DatabaseUnusable

VERSION_TABLE = "alembic_version"
# The tables that every version of the schema has had.
_FIRST = ("objects", "history", "counters")

_log = logger(__name__)


def make_tables(connection: Connection) -> None:
    """Create the tables of a new database in the form of the newest migration."""
    schema.metadata.create_all(connection)
    connection.execute(text(f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
    connection.execute(text(f"INSERT INTO {VERSION_TABLE} VALUES (:head)"), {"head": schema.REVISION})


def version(connection: Connection, name: str) -> str | None:
    """Return the migration of the database; None for a new one.

    Raises:
        DatabaseUnusable: it has another program's tables, or those of a newer version.
    """
    tables = set(inspect(connection).get_table_names())
    foreign = tables - {*schema.metadata.tables, VERSION_TABLE}
    if foreign and not {VERSION_TABLE, *_FIRST} <= tables:
        raise DatabaseUnusable(name, f"it has a table {min(foreign)}, so it is another program's")
    if VERSION_TABLE not in tables:
        return None
    found: str = connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}")) or ""
    if foreign and found > schema.REVISION:
        raise DatabaseUnusable(name, f"it has version {found}, which this API server does not know")
    if foreign:
        raise DatabaseUnusable(name, f"it has a table {min(foreign)}, so it is another program's")
    return found


def migrate(connection: Connection, name: str, found: str) -> None:
    """Bring the tables up to date from their migration.

    Raises:
        DatabaseUnusable: this API server does not know the migration.
    """
    if found == schema.REVISION:
        return
    from alembic.util import CommandError

    from dra_apiserver.storage.migrations import upgrade

    _log.info("database is of an older version, it is being migrated", database=name, version=found)
    try:
        upgrade(connection)
    except CommandError as error:
        raise DatabaseUnusable(
            name, f"it has version {found}, which this API server does not know"
        ) from error
