"""The metrics of the services, from the calls in their sources that create them: name, kind, help and labels.

The sources are parsed and not run, because most metrics are only created when a service starts.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from tools.reference.markdown import code, plain, table

_ROOT = Path(__file__).parents[2]
_SERVICES = {
    "API server": "services/apiserver/dra_apiserver",
    "scheduler": "services/scheduler/dra_scheduler",
    "controllers": "services/controller/dra_controller",
    "node agent": "services/node-agent/dra_node_agent",
}
_KINDS = {
    "Counter": "counter",
    "CounterMetricFamily": "counter",
    "Gauge": "gauge",
    "GaugeMetricFamily": "gauge",
    "gauge": "gauge",
    "Histogram": "histogram",
    "HistogramMetricFamily": "histogram",
}
# Metrics of /metrics/resource, which have a table of their own.
_OF_CONTAINERS = frozenset({"container_start_time_seconds", "resource_scrape_error", "scrape_error"})
# A call that creates a metric. Most modules have none, and need not be parsed.
_MADE = re.compile(rf'\b(?:{"|".join(_KINDS)})\(\s*"')


class Metric(NamedTuple):
    """A metric, from the arguments of the call that creates it."""

    name: str
    kind: str
    about: str
    labels: tuple[str, ...]


def tables() -> Mapping[str, Callable[[], str]]:
    """Return the tables of docs/metrics.md by name: one for each service."""
    return {f"metrics of the {title}": partial(_table, folder) for title, folder in _SERVICES.items()}


def _table(folder: str) -> str:
    rows = [
        [code(one.name), one.kind, ", ".join(map(code, one.labels)), plain(one.about.rstrip("."))]
        for one in sorted(set(metrics(_ROOT / folder)))
        if one.name not in _OF_CONTAINERS
    ]
    return table(["metric", "type", "labels", "meaning"], rows)


def metrics(folder: Path) -> Iterator[Metric]:
    """Return the metrics that the modules below the folder create."""
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text()
        if not _MADE.search(text):
            continue
        tree = ast.parse(text)
        yield from _within(tree, _constants(tree))


def _within(scope: ast.AST, names: dict[str, ast.expr]) -> Iterator[Metric]:
    """Yield the metrics that a module or a function makes. A function's own names come before its module's."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _within(node, names | _constants(node))
            continue
        made = _metric(node, names) if isinstance(node, ast.Call) else _parse_entry(node)
        if made:
            yield made
        yield from _within(node, names)


def _metric(call: ast.Call, names: dict[str, ast.expr]) -> Metric | None:
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if called not in _KINDS or len(call.args) < 2:
        return None
    name, about = (_value(one, names) for one in call.args[:2])
    if not isinstance(name, str) or not isinstance(about, str):
        return None
    given = next((word.value for word in call.keywords if word.arg in ("labels", "labelnames")), None)
    labels = _value(given or call.args[2], names) if given or len(call.args) > 2 else ()
    kind = _KINDS[called]
    # The client library adds this ending to what it counts.
    ending = "_total" if kind == "counter" and not name.endswith("_total") else ""
    return Metric(name + ending, kind, about, tuple(labels) if isinstance(labels, list | tuple) else ())


def _parse_entry(entry: ast.AST) -> Metric | None:
    """Return the metric of an entry in a table of gauges, which has its name, its help, and a function for its
    value.
    """
    match entry:
        case ast.Tuple(elts=[ast.Constant(value=str(name)), ast.Constant(value=str(about)), ast.Lambda()]):
            return Metric(name, "gauge", about, ())
    return None


def _constants(tree: ast.AST) -> dict[str, ast.expr]:
    """Return the constants that are set in the module, or in a module of `dra_shared` that it imports from."""
    found: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.value
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dra_shared."):
            source = (_ROOT / "shared" / (node.module or "").replace(".", "/")).with_suffix(".py")
            if source.exists():
                found = {**_shared_constants(source), **found}
    return found


@cache
def _shared_constants(source: Path) -> dict[str, ast.expr]:
    """Return the constants of a module that many modules import. The result is cached."""
    return _constants(ast.parse(source.read_text()))


def _value(node: ast.expr, names: dict[str, ast.expr]) -> object:
    """Return the value of a constant, also of a named one. Return None if it is only known at run time."""
    if isinstance(node, ast.Name) and node.id in names:
        node = names[node.id]
    try:
        value: object = ast.literal_eval(node)
    except ValueError:
        return None
    return value
