"""``cel``: evaluate an expression for the devices of a cluster or a dump."""

from collections.abc import Callable

import msgspec
import orjson
from dra_kube.access import ChosenCluster
from dra_kube.tables import Table
from dra_shared.api.resources import RESOURCE_SLICES
from dra_shared.cel.workbench import CelAnswer, Finding, candidates, evaluate
from dra_shared.errors import UserError

_MOST = 100_000


async def cel(
    cluster: ChosenCluster, expression: str, output: str, source: str | None, warn: Callable[[str], None]
) -> tuple[str, bool]:
    """Return the report, and whether a device matches.

    ``warn`` is called with each problem that makes the answer uncertain.

    Raises:
        UserError: the expression does not compile, or the cluster can't be read.
    """
    if output not in ("", "json", "yaml"):
        raise UserError(f"unknown output {output!r}: choose json or yaml, or leave it out", 2)
    from dra_worlds.snapshot import Snapshot

    snapshot = await Snapshot.read(source, cluster)
    for problem in snapshot.uncertain:
        warn(problem)
    devices = candidates(snapshot.objects.of(RESOURCE_SLICES).values())
    report = evaluate(expression, devices, snapshot.config.gates, _MOST)
    if report.problems:
        raise UserError(problems(expression, report))
    return _format(report, output) if output else text(report), bool(report.matches)


def _format(report: CelAnswer, output: str) -> str:
    shown = orjson.dumps(report, default=msgspec.structs.asdict)
    if output == "json":
        return shown.decode()
    import yaml

    document: str = yaml.safe_dump(orjson.loads(shown), sort_keys=False, allow_unicode=True)
    return document.rstrip()


def problems(expression: str, report: CelAnswer) -> str:
    """Return each problem, with a caret below its position in the expression."""
    shown = []
    for problem in report.problems:
        before = expression[: max(problem.offset, 0)]
        line = expression[before.rfind("\n") + 1 :].partition("\n")[0]
        column = len(before) - before.rfind("\n") - 1
        caret = f"\n  {line}\n  {' ' * column}^" if problem.offset >= 0 else ""
        shown.append(problem.message + caret)
    return "\n".join(shown)


def text(report: CelAnswer) -> str:
    """Format a row for each device, matching devices first, and the totals."""
    parts = len(report.clauses) > 1
    header = [
        "DEVICE",
        "MATCH",
        *(f"CLAUSE {number + 1}" for number in range(len(report.clauses)) if parts),
        "SAW",
    ]
    rows = [_row(finding, parts) for finding in report.findings]
    lines = [Table(header).text(rows)] if rows else []
    if parts:
        lines += [
            f"clause {number + 1}: {clause.expression}: true for {clause.matches}"
            for number, clause in enumerate(report.clauses)
        ]
    cost = f"cost at most {report.highest_cost} of {report.cost_limit}, estimated {report.estimated_cost}"
    return "\n".join([*lines, f"{report.matches} of {report.devices} devices match; {cost}"])


def _row(finding: Finding, parts: bool) -> list[str]:
    results = [one if isinstance(one, str) else _yes(one) for one in finding.clauses if parts]
    saw = " ".join(f"{name.rpartition('/')[2]}={value}" for name, value in finding.values.items())
    return [
        f"{finding.pool}/{finding.device}",
        finding.error or _yes(finding.matches),
        *results,
        saw or "<none>",
    ]


def _yes(value: bool) -> str:
    return "yes" if value else "no"
