"""Noticing that another database has taken the place of the one that was: a promoted standby, or a restored copy.

It may lack revisions that clients have seen, as nothing but synchronous replication keeps it from that. So before
anything is written there its revisions go on far above all that ever were, and what is below counts as compacted: each
server reads all objects again, and watches end with 410. As with etcd (`etcdutl snapshot restore --bump-revision
--mark-compacted`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dra_shared.log import logger

from dra_apiserver.storage.rows import Row

_NEWEST, _COMPACTED, _KNOWN, _HERE = "newest", "compacted", "database", "here"
# Which database it is: PostgreSQL's timeline, which a promotion changes, and the table, which a restored dump has made.
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
# By chance as well, because two standbys may be promoted one after the other.
_LEAP = (
    "WITH leap AS (SELECT greatest(%s::bigint, max(value), 1) + 1000000000 + floor(random() * 1000000000)::bigint "
    f"AS revision FROM counters WHERE name IN ('{_NEWEST}', '{_COMPACTED}')) "
    f"INSERT INTO counters SELECT unnest(ARRAY['{_NEWEST}', '{_COMPACTED}']), revision FROM leap "
    "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)

Execute = Callable[[str, Row], Iterable[Any]]

_log = logger(__name__)


class Replaced(OSError):
    """This is a database that another one had replaced already."""


@dataclass(frozen=True, slots=True)
class Counters:
    """The newest revision, and up to which history is compacted; which database it is, and which one wrote last."""

    newest: int
    compacted: int
    here: int | None
    known: int | None

    def lacks(self, revision: int) -> bool:
        """Whether the database has taken another one's place, or has not come to a revision that there was."""
        # The store of an empty database is at 1.
        lost = max(self.newest, 1) < revision
        return lost or None is not self.here != self.known is not None


class Succession:
    """What a server knows of the databases that were one after the other."""

    def __init__(self) -> None:
        self._timeline = 0
        self._query = _query(_WHICH)

    def know_nothing(self) -> None:
        """The database is of a kind that does not say which one it is."""
        self._query = _query(_UNKNOWN)

    def counters(self, execute: Execute) -> Counters:
        """Read them.

        Raises:
            Replaced: the database was replaced by another one that this server has seen, and is back.
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
        """Where the database lacks a revision, go on far above it. The caller has the log's lock."""
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
