"""``explain`` and ``free``: what the scheduler knows, asked of the scheduler itself."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
from dra_shared.client.rest import Client

from dra_cli.cluster import Cluster
from dra_cli.errors import CommandError

_KINDS = {
    "pod": "pod",
    "pods": "pod",
    "po": "pod",
    "claim": "claim",
    "resourceclaim": "claim",
    "resourceclaims": "claim",
}


async def explain(data: Path, target: str, namespace: str, nodes: int, output: str) -> None:
    """Print the explanation of ``pod/NAME`` or ``claim/NAME``.

    Raises:
        CommandError: the target is neither, or does not exist.
    """
    _check(output)
    kind, slash, name = target.partition("/")
    if not slash:
        kind, name = "pod", target
    if kind not in _KINDS:
        raise CommandError(f"cannot explain {target!r}: choose pod/NAME or claim/NAME", 2)
    params = {"nodes": str(nodes)}
    if output != "json":
        params["format"] = "text"
    print((await _ask(data, f"/explain/{_KINDS[kind]}/{namespace}/{name}", params)).rstrip())


async def free(data: Path, output: str) -> None:
    """Print what is free and what is used.

    Raises:
        CommandError: no cluster runs there.
    """
    import orjson

    _check(output)
    answer = await _ask(data, "/free", {})
    if output == "json":
        print(answer.rstrip())
        return
    report = orjson.loads(answer)
    pools = report.get("pools", [])
    _table("POOL", [(f"{pool['driver']}/{pool['pool']}", pool.get("usage", {})) for pool in pools])
    _table("CLASS", report.get("classes", {}).items())
    _table("NODE", report.get("nodes", {}).items())
    for title, part in (("COUNTER", "counters"), ("CAPACITY", "capacity")):
        rows = [
            (f"{pool['driver']}/{pool['pool']}/{name}", usage.get("free", "0"), usage.get("total", "0"))
            for pool in pools
            for name, usage in pool.get(part, {}).items()
        ]
        if rows:
            _print([(title, "FREE", "TOTAL"), *rows])


def _check(output: str) -> None:
    if output not in ("", "json"):
        raise CommandError(f"unknown output {output!r}: choose json, or leave it out", 2)


def _table(title: str, usages: Iterable[tuple[str, dict[str, Any]]]) -> None:
    rows = [
        (name, *(str(usage.get(key, 0)) for key in ("free", "used", "devices", "shares")))
        for name, usage in usages
    ]
    _print([(title, "FREE", "USED", "DEVICES", "SHARES"), *rows])


def _print(rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print()


async def _ask(data: Path, path: str, params: dict[str, str]) -> str:
    scheduler = Cluster(data).record().services.get("scheduler")
    if scheduler is None:
        raise CommandError("only dralab's own scheduler can tell, and this cluster runs without it")
    try:
        async with Client(scheduler.url, user_agent="dralab") as client:
            response = await client.raw("GET", path, params=params)
    except httpx.HTTPError as error:
        raise CommandError(f"the scheduler does not answer ({error}); see `dralab status`") from error
    if response.status_code != 200:
        raise CommandError(response.text.strip() or f"the scheduler answers {response.status_code}")
    return response.text
