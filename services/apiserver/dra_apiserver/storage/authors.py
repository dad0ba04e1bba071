"""The author of a write, which is stored with each revision.

Upstream's audit events have the same members (`apiserver/pkg/apis/audit`): user, user agent, verb, subresource. As
there, they are part of the request's context instead of a parameter of every function that a write passes.
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


#: Upstream's user name for writes of the API server itself.
SERVER = Author("system:apiserver")
_AGENT = 256

_current: ContextVar[str] = ContextVar("author", default="")


def set_author(author: Author) -> None:
    """Set the author of all later writes of this task and of those that it starts."""
    _current.set(text_of(author))


def current_author() -> str:
    """Return the current task's author in the database's form: "" is the server itself."""
    return _current.get()


@functools.lru_cache(maxsize=4096)
def text_of(author: Author) -> str:
    """Return the author in the form of the database."""
    return orjson.dumps([author.user, author.agent[:_AGENT], *author[2:]]).decode()


def author_of(text: str) -> Author:
    """Return the author from the form of the database."""
    return Author(*orjson.loads(text)) if text else SERVER
