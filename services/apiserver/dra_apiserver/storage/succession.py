"""Detect that another database has taken the place of the former one: a promoted standby, or a restored copy.

It may lack revisions that clients have seen, because only synchronous replication prevents that. So before
anything is written there, its revisions continue far above all earlier ones, and those below count as
compacted: each server reads all objects again, and watches end with 410. etcd does the same (`etcdutl
snapshot restore --bump-revision --mark-compacted`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dra_shared.log import logger

from dra_apiserver.storage.rows import Row

_NEWEST, _COMPACTED, _KNOWN, _HERE = "newest", "compacted", "database", "here"
# The identity of a database: PostgreSQL's timeline, which a promotion changes, and the table, which a
# restored dump creates.
_WHICH = (
    "CASE WHEN pg_is_in_recovery() THEN NULL ELSE "
    "(('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint << 32) "
    "| 'counters'::regclass::oid::bigint END"
)
_UNKNOWN = "NULL::bigint"
_NOTE = (
    f"INSERT INTO counters SELECT '{_KNOWN}', %s WHERE %s::bigint IS NOT NULL "
    "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
# A random part is added because two standbys may be promoted one after the other.
_LEAP = (
    "WITH leap AS (SELECT greatest(%s::bigint, max(value), 1) + 1000000000 + floor(random() * 1000000000)::bigint "
    f"AS revision FROM counters WHERE name IN ('{_NEWEST}', '{_COMPACTED}')) "
    f"INSERT INTO counters SELECT unnest(ARRAY['{_NEWEST}', '{_COMPACTED}']), revision FROM leap "
    "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)

Execute = Callable[[str, Row], Iterable[Any]]

_log = logger(__name__)


class Replaced(OSError):
    """This database was already replaced by another one, and is now used again."""


@dataclass(frozen=True, slots=True)
class Counters:
    """The newest revision, the revision up to which history is compacted, this database, and the last one
    that wrote.
    """

    newest: int
    compacted: int
    here: int | None
    known: int | None

    def lacks(self, revision: int) -> bool:
        """Return whether the database has replaced another one, or lacks a revision that existed."""
        # The store of an empty database is at 1.
        lost = max(self.newest, 1) < revision
        return lost or None is not self.here != self.known is not None


class Succession:
    """The databases that this server has seen, one after the other."""

    def __init__(self) -> None:
        self._timeline = 0
        self._query = _query(_WHICH)

    def know_nothing(self) -> None:
        """Record that this kind of database has no identity."""
        self._query = _query(_UNKNOWN)

    def counters(self, execute: Execute) -> Counters:
        """Read the counters.

        Raises:
            Replaced: this server has already seen another database that replaced this one.
        """
        found: Mapping[str, int | None] = {row[0]: row[1] for row in execute(self._query, ())}
        here, compacted = found.get(_HERE), found.get(_COMPACTED) or 0
        timeline = 0 if here is None else here >> 32
        if here is not None and timeline < self._timeline:
            raise Replaced(
                f"its timeline is {timeline}, and {self._timeline} was there already: a promoted standby has "
                "replaced this database"
            )
        self._timeline = max(self._timeline, timeline)
        return Counters(max(found.get(_NEWEST) or 0, compacted), compacted, here, found.get(_KNOWN))

    def leap(self, execute: Execute, revision: int) -> None:
        """If the database lacks a revision that clients may have seen, continue with far higher revisions.

        The caller holds the log's lock.
        """
        found = self.counters(execute)
        if found.lacks(revision):
            execute(_LEAP, (revision,))
            _log.warning(
                "the database is another one than it was or has lost writes: clients list again",
                newest=found.newest,
                seen=revision,
            )
        if found.here != found.known:
            execute(_NOTE, (found.here, found.here))


def _query(which: str) -> str:
    return f"SELECT name, value FROM counters UNION ALL SELECT '{_HERE}', {which}"
