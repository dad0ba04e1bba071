"""The statements of the PostgreSQL engine. Rows are passed as one array for each of their columns."""

from __future__ import annotations

ADD_HISTORY = (
    "INSERT INTO history (revision, resource, key, type, previous, data, time, author) SELECT * FROM unnest("
    "%s::bigint[], %s::text[], %s::text[], %s::smallint[], %s::bigint[], %s::bytea[], "
    "%s::bigint[], %s::text[])"
)
KEEP_HISTORY = ADD_HISTORY + " ON CONFLICT (revision) DO NOTHING"
PUT_OBJECTS = (
    "INSERT INTO objects (resource, key, revision, data) SELECT * FROM unnest("
    "%s::text[], %s::text[], %s::bigint[], %s::bytea[]) "
    "ON CONFLICT (resource, key) DO UPDATE SET revision = excluded.revision, data = excluded.data"
)
REMOVE_OBJECTS = (
    "DELETE FROM objects o USING unnest(%s::text[], %s::text[]) AS gone (resource, key) "
    "WHERE o.resource = gone.resource AND o.key = gone.key"
)
# This is one statement because each takes a round trip to the database, while others wait for the log's lock.
COUNT = (
    "INSERT INTO counters (name, value) VALUES (%s, %s) "
    "ON CONFLICT (name) DO UPDATE SET value = greatest(counters.value, excluded.value)"
)
STORE = (
    f"WITH added AS ({ADD_HISTORY}), put AS ({PUT_OBJECTS}), gone AS ({REMOVE_OBJECTS}), counted AS ({COUNT}) "
    "SELECT pg_notify(%s, '')"
)
READ_LOG = (
    "SELECT revision, resource, key, type, data FROM history WHERE revision > %s ORDER BY revision LIMIT %s"
)
READ_HISTORY = (
    "SELECT h.type, h.key, h.revision, h.data, p.revision, p.data FROM history h "
    "LEFT JOIN history p ON p.revision = h.previous "
    "WHERE h.resource = %s AND h.revision > %s AND h.revision <= %s ORDER BY h.revision LIMIT %s"
)
FORGET = (
    "DELETE FROM history WHERE revision IN (SELECT h.revision FROM history h WHERE h.revision <= %s "
    "AND NOT EXISTS (SELECT 1 FROM history n WHERE n.previous = h.revision AND n.revision > %s) LIMIT %s)"
)
