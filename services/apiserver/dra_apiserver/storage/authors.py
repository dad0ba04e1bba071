"""Who writes: what each revision remembers of the request that made it.

Upstream's audit events have the same members (`apiserver/pkg/apis/audit`): user, user agent, verb, subresource. As
there, they travel in the request's context and not through every function that a write passes.
"""

from __future__ import annotations

import functools
from contextvars import ContextVar
from typing import NamedTuple

import orjson


class Author(NamedTuple):
    """``manager`` is the field manager; ``verb`` the request's: create, update, patch, apply, delete, …"""

    user: str
    agent: str = ""
    manager: str = ""
    verb: str = ""
    subresource: str = ""


#: Upstream's name for what the API server itself does.
SERVER = Author("system:apiserver")
_AGENT = 256

_current: ContextVar[str] = ContextVar("author", default="")


def set_author(author: Author) -> None:
    """What this task, and those that it starts, write from now on is the author's."""
    _current.set(text_of(author))


def current_author() -> str:
    """The author of what is written now, as the database keeps it: "" is the server itself."""
    return _current.get()


@functools.lru_cache(maxsize=4096)
def text_of(author: Author) -> str:
    """The author as the database keeps it."""
    return orjson.dumps([author.user, author.agent[:_AGENT], *author[2:]]).decode()


def author_of(text: str) -> Author:
    """The author that the database names."""
    return Author(*orjson.loads(text)) if text else SERVER
