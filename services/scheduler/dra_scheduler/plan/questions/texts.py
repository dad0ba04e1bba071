"""Output lines and command line arguments that several questions share."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from dra_shared.optiontypes import number
from dra_shared.plurals import count

from dra_scheduler.plan.tables import Table

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


def name_objects(given: Any) -> str:
    """Return a name for the manifests of a request: the name of their file, or kind and name of the first object."""
    if isinstance(given, str | PurePath):
        text = str(given)
        return "standard input" if text == "-" else "a manifest" if "\n" in text else PurePath(text).name
    if isinstance(given, dict):
        given = [given]
    names = (
        [
            f"{each.get('kind', 'object')} {(each.get('metadata') or {}).get('name', '')}".rstrip()
            for each in given
            if isinstance(each, dict)
        ]
        if isinstance(given, Iterable)
        else []
    )
    if not names:
        return "the manifests"
    return names[0] if len(names) == 1 else f"{names[0]} and {count(len(names) - 1, 'other object')}"


def list_names(names: Sequence[str], most: int = 3) -> str:
    """Return the first names in a sentence, and the number of the others."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def tabulate_places(caption: str, pods: Iterable[PodPlace]) -> Table:
    """Return a table of pods with their nodes and devices, or the reasons why they have none."""
    rows = [(pod.pod, pod.node, pod.devices, pod.message) for pod in pods]
    return Table(caption, ("pod", "node", "devices", "message"), rows)


def add_namespace(words: argparse.ArgumentParser) -> None:
    """Add ``--namespace``."""
    words.add_argument(
        "--namespace", "-n", help="namespace of objects that do not set one (default: default)"
    )


def add_seconds(words: argparse.ArgumentParser) -> None:
    """Add ``--time``, the limit of a search."""
    words.add_argument("--time", type=number(0.0, None, float), default=60.0, help="seconds to search (60)")
