"""``dralab events``."""

import argparse
import json
from datetime import UTC, datetime
from typing import Any

from dra_shared.durations import since

from dra_cli.access import chosen_cluster, cluster_options
from dra_cli.commandline import Parser

_HEADER = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("--namespace", "-n", help="namespace (default: default)")
    parser.add_argument("--all-namespaces", "-A", action="store_true", help="events of all namespaces")
    parser.add_argument("--for", dest="regarding", metavar="KIND/NAME", help="only events of this object")
    parser.add_argument("--types", help="only these types: Normal,Warning")
    parser.add_argument("--watch", "-w", action="store_true", help="then show new events, until Ctrl-C")
    parser.add_argument("--no-headers", action="store_true", help="leave the columns' names out")
    cluster_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """Print the events, oldest first."""
    from dra_kube.tables import Table

    with chosen_cluster(chosen).reader() as reader:
        path = (
            "/api/v1/events"
            if chosen.all_namespaces
            else f"/api/v1/namespaces/{chosen.namespace or 'default'}/events"
        )
        listed = reader.json(path)
        header = ("NAMESPACE", *_HEADER) if chosen.all_namespaces else _HEADER
        table = Table(header, headers=not chosen.no_headers)
        found = [event for event in sorted(listed["items"], key=last_seen) if _is_selected(chosen, event)]
        if found:
            print(table.text([_row(chosen, event) for event in found]), flush=True)
        elif not chosen.watch:
            print("No events found.")
        if chosen.watch:
            params = {"watch": "true", "resourceVersion": listed["metadata"]["resourceVersion"]}
            for line in reader.lines(path, params):
                event = json.loads(line)
                if event["type"] in ("ADDED", "MODIFIED") and _is_selected(chosen, event["object"]):
                    print(table.text([_row(chosen, event["object"])]), flush=True)


def last_seen(event: dict[str, Any]) -> str:
    """Return the time when an event last occurred."""
    series = event.get("series") or {}
    last: str = series.get("lastObservedTime") or event.get("lastTimestamp") or ""
    last = last or event.get("firstTimestamp") or event.get("eventTime") or ""
    return last


def row(event: dict[str, Any]) -> list[str]:
    """Return an event as cells of the table."""
    regarding = event.get("involvedObject") or {}
    count = event.get("count") or (event.get("series") or {}).get("count") or 1
    last = since(last_seen(event), datetime.now(UTC))
    shown = f"{last} (x{count})" if count > 1 else last
    return [
        shown,
        event.get("type", ""),
        event.get("reason", ""),
        f"{regarding.get('kind', '').lower()}/{regarding.get('name', '')}",
        event.get("message", "").strip(),
    ]


def _row(chosen: argparse.Namespace, event: dict[str, Any]) -> list[str]:
    return [event["metadata"]["namespace"], *row(event)] if chosen.all_namespaces else row(event)


def _is_selected(chosen: argparse.Namespace, event: dict[str, Any]) -> bool:
    if chosen.types and event.get("type") not in chosen.types.split(","):
        return False
    if not chosen.regarding:
        return True
    kind, _, name = chosen.regarding.rpartition("/")
    regarding = event.get("involvedObject") or {}
    known = regarding.get("kind", "").lower()
    return regarding.get("name") == name and kind.lower().rstrip("s") in (
        "",
        known,
        {"po": "pod"}.get(kind, known),
    )
