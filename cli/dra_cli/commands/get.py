"""``dralab get``."""

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dra_shared.errors import UserError

from dra_cli.access import chosen_cluster, cluster_options, moment_option
from dra_cli.commandline import Parser

if TYPE_CHECKING:
    from dra_kube.reader import Reader
    from dra_kube.selection import Selected
    from dra_kube.tables import Table

    from dra_cli.outputs import Named, Show

_TEMPLATES = (
    "jsonpath",
    "jsonpath-as-json",
    "jsonpath-file",
    "go-template",
    "go-template-file",
    "custom-columns",
    "custom-columns-file",
)
_OUTPUTS = ("wide", "yaml", "json", "name", *(f"{name}=…" for name in _TEMPLATES))
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
# Kinds whose objects usually have a numeric suffix.
_NUMBERED = ("nodes", "resourceslices")


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("what", nargs="+", help="KIND[,KIND…], KIND NAME…, KIND/NAME…, or all")
    parser.add_argument("--namespace", "-n", help="namespace (default: default)")
    parser.add_argument("--all-namespaces", "-A", action="store_true", help="objects of all namespaces")
    parser.add_argument("--output", "-o", default="", help=f"{', '.join(_OUTPUTS)}; templates as in kubectl")
    parser.add_argument("--selector", "-l", help="label selector")
    parser.add_argument("--field-selector", help="field selector")
    parser.add_argument("--watch", "-w", action="store_true", help="then show changes, until Ctrl-C")
    parser.add_argument("--no-headers", action="store_true", help="leave the columns' names out")
    parser.add_argument("--show-labels", action="store_true", help="show objects' labels in the last column")
    parser.switch("--show-managed-fields", help="keep managedFields in json and yaml")
    moment_option(parser)
    cluster_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """Print the objects.

    Raises:
        UserError: the output is unknown, or several kinds are to be watched.
    """
    shown = _show(chosen)
    if chosen.watch and chosen.at:
        raise UserError("--watch and --at: the past does not change", 2)
    from dra_kube.selection import discover, select

    with chosen_cluster(chosen).reader() as reader:
        selected = select(discover(reader, chosen.what), chosen.what)
        if chosen.watch and (len(selected) > 1 or len(selected[0].names) > 1):
            raise UserError("you may only specify a single resource type to watch", 2)
        if shown is None:
            _tables(reader, chosen, selected)
        else:
            _objects(reader, chosen, selected, shown)


def _show(chosen: argparse.Namespace) -> "Show | None":
    """Return the printer of whole objects, or None for tables."""
    if chosen.output in ("", "wide"):
        return None
    from dra_cli.outputs import show

    shown = show(chosen.output, headers=not chosen.no_headers, managed_fields=chosen.show_managed_fields)
    if shown is None:
        raise UserError(f"unknown output {chosen.output!r}: choose {', '.join(_OUTPUTS)}", 2)
    return shown


def _paths(chosen: argparse.Namespace, one: "Selected") -> Iterator[str]:
    namespaced = one.resource.namespaced and not chosen.all_namespaces
    namespace = (chosen.namespace or "default") if namespaced else None
    for name in one.names or (None,):
        yield one.resource.path(namespace, name)


def _params(chosen: argparse.Namespace) -> dict[str, str | None]:
    return {"labelSelector": chosen.selector, "fieldSelector": chosen.field_selector}


# Whole objects


def _objects(reader: "Reader", chosen: argparse.Namespace, selected: "list[Selected]", shown: "Show") -> None:
    found = []
    revision = ""
    for one in selected:
        for path in _paths(chosen, one):
            body = reader.json(path, _params(chosen))
            revision = body["metadata"].get("resourceVersion", "")
            found += [_with_name(one, item) for item in body.get("items", [body])]
    if not chosen.watch:
        single = len(selected) == 1 and len(selected[0].names) == 1
        sys.stdout.write(shown(found, single))
        return
    for each in found:
        _write(shown([each], True))
    for obj in _events(reader, chosen, selected[0], path, revision, "application/json"):
        _write(shown([_with_name(selected[0], obj)], True))


def _with_name(one: "Selected", item: dict[str, Any]) -> "Named":
    whole = {"apiVersion": one.resource.api_version, "kind": one.resource.kind, **item}
    return f"{one.resource.title}/{item['metadata']['name']}", whole


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _events(
    reader: "Reader", chosen: argparse.Namespace, one: "Selected", path: str, revision: str, accept: str
) -> Iterator[dict[str, Any]]:
    """Yield the objects of the events after a revision, until the watch ends.

    Raises:
        UserError: the watch ends with an error.
    """
    import json

    params = {**_params(chosen), "watch": "true", "resourceVersion": revision}
    if one.names:
        path = path.rpartition("/")[0]
        params["fieldSelector"] = f"metadata.name={one.names[0]}"
    if accept == _TABLE and _is_whole(chosen, one):
        params["includeObject"] = "Object"
    for line in reader.lines(path, params, accept):
        event = json.loads(line)
        if event["type"] == "ERROR":
            raise UserError(f"the watch ended: {event['object'].get('message', '')}")
        if event["type"] != "BOOKMARK":
            yield event["object"]


# Tables


def _tables(reader: "Reader", chosen: argparse.Namespace, selected: "list[Selected]") -> None:
    shown = 0
    for one in selected:
        printer = _Printer(chosen, one, titles=len(selected) > 1)
        for path in _paths(chosen, one):
            params = {**_params(chosen), "includeObject": "Object" if printer.whole else None}
            table = reader.json(path, params, _TABLE)
            text = printer.text(table)
            if text:
                print("\n" * (shown > 0 and printer.fresh) + text, flush=True)
                shown += 1
                printer.fresh = False
            if chosen.watch:
                revision = table["metadata"].get("resourceVersion")
                for event in _events(reader, chosen, one, path, revision, _TABLE):
                    print(printer.text(event), flush=True)
    if not shown and not chosen.watch:
        spaced = any(one.resource.namespaced for one in selected) and not chosen.all_namespaces
        print("No resources found" + (f" in {chosen.namespace or 'default'} namespace." if spaced else "."))


def _is_whole(chosen: argparse.Namespace, one: "Selected") -> bool:
    """True if the rows need their whole objects."""
    return bool(chosen.output == "wide" and one.resource.plural == "resourceclaims")


class _Printer:
    """Prints the tables of one resource. In a watch the server sends the columns only once."""

    def __init__(self, chosen: argparse.Namespace, one: "Selected", titles: bool) -> None:
        self.one = one
        self.whole = _is_whole(chosen, one)
        self.fresh = True
        self._chosen = chosen
        self._titles = titles
        self._columns: list[dict[str, Any]] = []
        self._table: Table | None = None

    def text(self, table: dict[str, Any]) -> str:
        """Return the rows as text, or "" if there are none."""
        from dra_kube.tables import Table, natural_key

        self._columns = table.get("columnDefinitions") or self._columns
        wide = self._chosen.output == "wide"
        shown = [i for i, column in enumerate(self._columns) if wide or not column.get("priority")]
        rows = [self._row(row, shown) for row in table.get("rows") or ()]
        if not rows:
            return ""
        if self.one.resource.plural in _NUMBERED:
            rows.sort(key=lambda row: natural_key(row[0]))
        if self._table is None:
            self._table = Table(self._header(shown), headers=not self._chosen.no_headers)
        return self._table.text(rows)

    def _header(self, shown: list[int]) -> list[str]:
        spaced = self._chosen.all_namespaces and self.one.resource.namespaced
        names = [self._columns[i]["name"].upper() for i in shown]
        more = ["DEVICES"] * self.whole + ["LABELS"] * self._chosen.show_labels
        return ["NAMESPACE"] * spaced + names + more

    def _row(self, row: dict[str, Any], shown: list[int]) -> list[str]:
        meta = row["object"]["metadata"]
        cells = [_cell(row["cells"][i]) for i in shown]
        if self._titles:
            cells[0] = f"{self.one.resource.title}/{cells[0]}"
        if self._chosen.all_namespaces and self.one.resource.namespaced:
            cells.insert(0, meta.get("namespace", ""))
        if self.whole:
            cells.append(_devices(row["object"]))
        if self._chosen.show_labels:
            cells.append(",".join(f"{k}={v}" for k, v in (meta.get("labels") or {}).items()) or "<none>")
        return cells


def _cell(value: Any) -> str:
    if value is None:
        return "<none>"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _devices(claim: dict[str, Any]) -> str:
    """Return the devices that are allocated to the claim."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    return ",".join(f"{result['pool']}/{result['device']}" for result in results) or "<none>"
