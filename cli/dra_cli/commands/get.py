"""``dralab get``."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dra_cli.access import chosen_cluster, cluster_options
from dra_cli.commandline import Parser
from dra_cli.errors import CommandError

if TYPE_CHECKING:
    from dra_cli.reader import Reader
    from dra_cli.selection import Selected
    from dra_cli.tables import Table

_OUTPUTS = ("", "wide", "yaml", "json", "name")
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
# Kinds of which a cluster has numbered ones.
_NUMBERED = ("nodes", "resourceslices")


def options(parser: Parser) -> None:
    """Declare what it takes."""
    parser.add_argument("what", nargs="+", help="KIND[,KIND…], KIND NAME…, KIND/NAME…, or all")
    parser.add_argument("--namespace", "-n", help="namespace (default: default)")
    parser.add_argument("--all-namespaces", "-A", action="store_true", help="objects of all namespaces")
    parser.add_argument("--output", "-o", default="", help="wide, yaml, json or name")
    parser.add_argument("--selector", "-l", help="label selector")
    parser.add_argument("--field-selector", help="field selector")
    parser.add_argument("--watch", "-w", action="store_true", help="then show every change, until Ctrl-C")
    parser.add_argument("--no-headers", action="store_true", help="leave the columns' names out")
    parser.add_argument("--show-labels", action="store_true", help="show objects' labels in the last column")
    cluster_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """Print the objects.

    Raises:
        CommandError: no such output, or several kinds are to be watched.
    """
    if chosen.output not in _OUTPUTS:
        raise CommandError(f"unknown output {chosen.output!r}: choose wide, yaml, json or name", 2)
    from dra_cli.selection import known, select

    with chosen_cluster(chosen).reader() as reader:
        selected = select(known(reader, chosen.what), chosen.what)
        if chosen.watch and (len(selected) > 1 or len(selected[0].names) > 1):
            raise CommandError("you may only specify a single resource type to watch", 2)
        if chosen.output in ("", "wide"):
            _tables(reader, chosen, selected)
        else:
            _objects(reader, chosen, selected)


def _paths(chosen: argparse.Namespace, one: "Selected") -> Iterator[str]:
    namespaced = one.resource.namespaced and not chosen.all_namespaces
    namespace = (chosen.namespace or "default") if namespaced else None
    for name in one.names or (None,):
        yield one.resource.path(namespace, name)


def _params(chosen: argparse.Namespace) -> dict[str, str | None]:
    return {"labelSelector": chosen.selector, "fieldSelector": chosen.field_selector}


# Whole objects


def _objects(reader: "Reader", chosen: argparse.Namespace, selected: "list[Selected]") -> None:
    found = []
    for one in selected:
        for path in _paths(chosen, one):
            body = reader.json(path, _params(chosen))
            items = body.get("items", [body])
            kind = {"apiVersion": one.resource.api_version, "kind": one.resource.kind}
            found += [(one, {**kind, **item}) for item in items]
    if chosen.output == "name":
        for one, item in found:
            print(f"{one.resource.title}/{item['metadata']['name']}")
        return
    single = len(selected) == 1 and len(selected[0].names) == 1
    items = [item for _, item in found]
    listed = {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}
    document: Any = items[0] if single else listed
    if chosen.output == "json":
        import json

        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        import yaml

        print(yaml.safe_dump(document, sort_keys=False, allow_unicode=True).rstrip())


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
                _watch(reader, chosen, printer, path, table)
    if not shown and not chosen.watch:
        spaced = any(one.resource.namespaced for one in selected) and not chosen.all_namespaces
        print("No resources found" + (f" in {chosen.namespace or 'default'} namespace." if spaced else "."))


def _watch(
    reader: "Reader", chosen: argparse.Namespace, printer: "_Printer", path: str, table: dict[str, Any]
) -> None:
    import json

    params = {**_params(chosen), "watch": "true", "resourceVersion": table["metadata"].get("resourceVersion")}
    if printer.one.names:
        path = path.rpartition("/")[0]
        params["fieldSelector"] = f"metadata.name={printer.one.names[0]}"
    params["includeObject"] = "Object" if printer.whole else None
    for line in reader.lines(path, params, _TABLE):
        event = json.loads(line)
        if event["type"] == "ERROR":
            raise CommandError(f"the watch ended: {event['object'].get('message', '')}")
        if event["type"] != "BOOKMARK":
            print(printer.text(event["object"]), flush=True)


class _Printer:
    """Shows tables of one resource; the server gives the columns once in a watch."""

    def __init__(self, chosen: argparse.Namespace, one: "Selected", titles: bool) -> None:
        self.one = one
        self.whole = chosen.output == "wide" and one.resource.plural == "resourceclaims"
        self.fresh = True
        self._chosen = chosen
        self._titles = titles
        self._columns: list[dict[str, Any]] = []
        self._table: Table | None = None

    def text(self, table: dict[str, Any]) -> str:
        """The rows as text; empty where there are none."""
        from dra_cli.tables import Table, natural

        self._columns = table.get("columnDefinitions") or self._columns
        wide = self._chosen.output == "wide"
        shown = [i for i, column in enumerate(self._columns) if wide or not column.get("priority")]
        rows = [self._row(row, shown) for row in table.get("rows") or ()]
        if not rows:
            return ""
        if self.one.resource.plural in _NUMBERED:
            rows.sort(key=lambda row: natural(row[0]))
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
    """What a claim was given."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    return ",".join(f"{result['pool']}/{result['device']}" for result in results) or "<none>"
