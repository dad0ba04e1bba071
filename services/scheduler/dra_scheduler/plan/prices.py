"""Prices of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dra_shared.api.node import Node

PRICE_LABEL = "dralab.dev/price"
"""The label of nodes with their price."""


def price_of(node: Node) -> float | None:
    """Return the price of a node, or None if it has no label with a number."""
    try:
        return float(node.metadata.labels[PRICE_LABEL])
    except (KeyError, ValueError):
        return None
