"""The settings of sessions with PostgreSQL, which override those of its URL, a role or a database."""

from __future__ import annotations

import re
from itertools import chain
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from dra_apiserver.storage.rows import Row

# In seconds and milliseconds. Timeouts after which client and server notice that the other one is gone. TCP
# alone takes a quarter of an hour.
_KEEPALIVES = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
_USER_TIMEOUT = 20_000
# A statement that waits for the log's lock may wait for long. A URL may set other options.
_DEFAULTS = {"statement_timeout": "0", "lock_timeout": "0"}
# An API server that is disconnected while it holds the log's lock loses the lock soon, because all others wait
# for it. Its sessions end soon, too, instead of counting against the limit for hours. Once a server has the
# lock, it has to see everything that is committed.
_SETTINGS = {
    "idle_in_transaction_session_timeout": "15000",
    "default_transaction_isolation": "read committed",
    **{f"tcp_{name}": str(value) for name, value in _KEEPALIVES.items()},
    "tcp_user_timeout": str(_USER_TIMEOUT),
}
_NETWORK = {"connect_timeout": 10, **_KEEPALIVES, "tcp_user_timeout": _USER_TIMEOUT}


def parameters(url: str) -> dict[str, Any]:
    """Return libpq's parameters of the URL, which may name several hosts.

    Raises:
        ValueError: the URL is not valid.
    """
    try:
        found = conninfo_to_dict(url)
    except psycopg.Error:
        found = {"port": "unknown"}
    if not all(port.isdecimal() for port in str(found.get("port") or "0").split(",") if port):
        raise ValueError("not a database's URL, such as postgresql://user@host/database")
    # Without this, a database without an encoding would return text as bytes.
    return {**_NETWORK, **found, "application_name": "dralab", "client_encoding": "utf8"}


def settings(options: str, relaxed: bool) -> tuple[str, Row]:
    """Return the statement that sets up a session, with its values. The statement returns the session's process id.

    The log survives a crash of the machine unless `relaxed`: otherwise an answered write could be lost.
    """
    wanted = {name: value for name, value in _DEFAULTS.items() if name not in options}
    wanted |= {**_SETTINGS, "synchronous_commit": "off" if relaxed else "on"}
    calls = ", set_config(%s, %s, false)" * len(wanted)
    return f"SELECT pg_backend_pid(){calls}", tuple(chain.from_iterable(wanted.items()))


def without_password(url: str) -> str:
    hidden = re.sub(r"^([^:]+://[^:/?@]*):[^/?@]*@", r"\1:***@", url)
    return re.sub(r"([?&]password=)[^&]*", r"\1***", hidden)
