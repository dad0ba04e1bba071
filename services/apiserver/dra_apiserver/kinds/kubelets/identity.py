"""Identify the node of a user (pkg/auth/nodeidentifier)."""

from __future__ import annotations

from dra_apiserver.user import UserInfo

#: The group of all nodes.
NODES = "system:nodes"
_USER = "system:node:"


def node_of(user: UserInfo) -> str | None:
    """Return the name of the node that the user is, "" if it has none; None for other users."""
    if NODES not in user.groups or not user.name.startswith(_USER):
        return None
    return user.name.removeprefix(_USER)
