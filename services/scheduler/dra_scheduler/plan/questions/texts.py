"""Lines and words that several questions have in common."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from dra_shared.optiontypes import number

if TYPE_CHECKING:
    from dra_scheduler.plan.fit import PodPlace

MOST_PODS = 20
INTERRUPTED = "interrupted: this is as far as it came"


def place_lines(pods: Iterable[PodPlace]) -> Iterator[str]:
    """Yield a line for each of the first pods that have a node."""
    placed = [pod for pod in pods if pod.node]
    for pod in placed[:MOST_PODS]:
        yield f"{pod.pod} on {pod.node}" + (f": {', '.join(pod.devices)}" if pod.devices else "")
    if len(placed) > MOST_PODS:
        yield f"and {len(placed) - MOST_PODS} more; -o json has all"


def uncertainty_lines(uncertain: Sequence[str]) -> list[str]:
    """Return a line for each reason why the answer is uncertain."""
    return [f"uncertain: {problem}" for problem in uncertain]


def add_namespace(words: argparse.ArgumentParser) -> None:
    """Add ``--namespace``."""
    words.add_argument("--namespace", "-n", help="namespace of manifests that name none (default: default)")


def add_seconds(words: argparse.ArgumentParser) -> None:
    """Add ``--time``, the limit of a search."""
    words.add_argument("--time", type=number(0.0, None, float), default=60.0, help="seconds to search (60)")
