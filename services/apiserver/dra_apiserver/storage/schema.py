"""The database's tables."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, SmallInteger, String, Table

REVISION = "0003"
"""The newest migration. A test checks that it is Alembic's head."""

metadata = MetaData()

_Number = BigInteger().with_variant(Integer, "sqlite")

objects = Table(
    "objects",
    metadata,
    Column("resource", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("revision", _Number, nullable=False),
    Column("data", LargeBinary, nullable=False),
)

history = Table(
    "history",
    metadata,
    Column("revision", _Number, primary_key=True, autoincrement=False),
    Column("resource", String, nullable=False),
    Column("key", String, nullable=False),
    Column("type", SmallInteger, nullable=False),
    Column("previous", _Number, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("time", _Number, nullable=False, server_default="0"),
    Column("author", String, nullable=False, server_default=""),
    Index("history_by_resource", "resource", "revision"),
)
# PostgreSQL uses it to find versions that compaction has to keep. SQLite is faster without.
Index("history_by_previous", history.c.previous).ddl_if(dialect="postgresql")

counters = Table(
    "counters",
    metadata,
    Column("name", String, primary_key=True),
    Column("value", _Number, nullable=False),
)

# Revisions that Kubernetes' clients no longer request (`storage/archive`): those of a resource with `first` <
# revision <= `last`.
segments = Table(
    "segments",
    metadata,
    Column("id", _Number, primary_key=True),
    Column("resource", String, nullable=False),
    Column("first", _Number, nullable=False),
    Column("last", _Number, nullable=False),
    Column("since", _Number, nullable=False),
    Column("until", _Number, nullable=False),
    Column("count", _Number, nullable=False),
    Column("raw", _Number, nullable=False),
    Column("size", _Number, nullable=False),
    Column("heads", LargeBinary, nullable=False),
    Column("bodies", LargeBinary, nullable=False),
    Index("segments_by_resource", "resource", "last"),
)

# The segments that have versions of an object.
segment_keys = Table(
    "segment_keys",
    metadata,
    Column("resource", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("segment", _Number, primary_key=True),
    sqlite_with_rowid=False,
)

# All objects of a resource at a revision.
keyframes = Table(
    "keyframes",
    metadata,
    Column("resource", String, primary_key=True),
    Column("revision", _Number, primary_key=True, autoincrement=False),
    Column("time", _Number, nullable=False),
    Column("raw", _Number, nullable=False),
    Column("size", _Number, nullable=False),
    Column("heads", LargeBinary, nullable=False),
    Column("bodies", LargeBinary, nullable=False),
)
