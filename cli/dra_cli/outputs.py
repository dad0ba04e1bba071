"""Printers for ``get -o``: yaml, json, name, and the user's own templates.

Upstream: cli-runtime/pkg/genericclioptions/jsonpath_flags.go, cli-runtime/pkg/printers/jsonpath.go, template.go and
kubectl/pkg/cmd/get/customcolumn.go.
"""

import json
from collections.abc import Callable, Sequence

from dra_kube.tables import Table
from dra_shared.boundedfiles import read_text
from dra_shared.errors import UserError
from dra_shared.jsonpath import PathError, Template, path
from dra_shared.jsonpath.golang import format_value
from dra_shared.jsontypes import JsonObject

#: An object and its name for ``-o name``.
Named = tuple[str, JsonObject]
#: Formats objects. The second argument is True for a single object, False for a list.
Show = Callable[[Sequence[Named], bool], str]

_NO_TEMPLATE = "template format specified but no template given"
_TWO_LINES = (
    "Expected format is one line of space separated headers, one line of space separated column specs."
)


def show(output: str, *, headers: bool = True, managed_fields: bool = False) -> Show | None:
    """Return the printer of an output, or None if there is no such output.

    Without ``managed_fields``, json and yaml leave them out. As with kubectl, templates still see them
    (cli-runtime/pkg/printers/managedfields.go).

    Raises:
        UserError: the template is malformed, or cannot be read.
    """
    kind, _, template = output.partition("=")
    if kind in _PLAIN:
        if template:
            return None
        printer = _PLAIN[kind]()
        return printer if managed_fields else _without_managed_fields(printer)
    if kind in ("jsonpath", "jsonpath-as-json", "jsonpath-file"):
        return _jsonpath(kind, template)
    if kind in ("go-template", "go-template-file"):
        return _go_template(kind, template)
    if kind in ("custom-columns", "custom-columns-file"):
        columns = _columns(template) if kind == "custom-columns" else _columns_of_file(template)
        return _custom_columns(columns, headers)
    return None


def check_data_output(output: str) -> None:
    """Check the output of a command whose answer is data.

    Raises:
        UserError: it is neither json, yaml nor empty.
    """
    if output not in ("", "json", "yaml"):
        raise UserError(f"unknown output {output!r}: choose json or yaml, or leave it out", 2)


def format_data(value: object, output: str) -> str:
    """Return data as YAML or JSON."""
    if output == "yaml":
        import yaml

        return yaml.safe_dump(value, sort_keys=False, allow_unicode=True).rstrip()
    return json.dumps(value, indent=2, ensure_ascii=False)


def _document(objects: Sequence[Named], single: bool) -> JsonObject:
    if single:
        return objects[0][1]
    items = [obj for _, obj in objects]
    return {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}


def _without_managed_fields(printer: Show) -> Show:
    def strip(obj: JsonObject) -> JsonObject:
        meta = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
        return {**obj, "metadata": meta}

    return lambda objects, single: printer([(name, strip(obj)) for name, obj in objects], single)


def _json() -> Show:
    return lambda objects, single: json.dumps(_document(objects, single), indent=2, ensure_ascii=False) + "\n"


def _yaml() -> Show:
    shown = 0

    def text(objects: Sequence[Named], single: bool) -> str:
        import yaml

        nonlocal shown
        shown += 1
        rule = "---\n" if shown > 1 else ""
        return rule + yaml.safe_dump(_document(objects, single), sort_keys=False, allow_unicode=True)

    return text


def _name() -> Show:
    return lambda objects, _: "".join(f"{name}\n" for name, _ in objects)


_PLAIN: dict[str, Callable[[], Show]] = {"json": _json, "yaml": _yaml, "name": _name}


# Templates


def _jsonpath(kind: str, given: str) -> Show:
    if not given:
        raise UserError(_NO_TEMPLATE, 2)
    text = _read(given, "error reading --template") if kind == "jsonpath-file" else given
    try:
        template = Template(text)
    except PathError as error:
        raise UserError(f"error parsing jsonpath {text}, {error}", 2) from error

    def render(objects: Sequence[Named], single: bool) -> str:
        document = _document(objects, single)
        try:
            if kind == "jsonpath-as-json":
                results = template.results(document)
                return "".join(json.dumps(each, indent=4, ensure_ascii=False) + "\n" for each in results)
            return template.text(document)
        except PathError as error:
            raise UserError(f"error executing jsonpath {json.dumps(text)}: {error}") from error

    return render


def _go_template(kind: str, given: str) -> Show:
    from dra_kube.gotemplate import GoTemplate, TemplateError

    if not given:
        raise UserError(_NO_TEMPLATE, 2)
    text = _read(given, "error reading --template") if kind == "go-template-file" else given
    try:
        template = GoTemplate(text)
    except TemplateError as error:
        raise UserError(f"error parsing template {text}, {error}", 2) from error

    def render(objects: Sequence[Named], single: bool) -> str:
        try:
            return template.text(_document(objects, single))
        except TemplateError as error:
            raise UserError(f"error executing template {json.dumps(text)}: {error}") from error

    return render


Column = tuple[str, Template]


def _columns(spec: str) -> list[Column]:
    if not spec:
        raise UserError("custom-columns format specified but no custom columns given", 2)
    found = []
    for part in spec.split(","):
        header, colon, expression = part.partition(":")
        if not colon:
            raise UserError(f"unexpected custom-columns spec: {part}, expected <header>:<json-path-expr>", 2)
        found.append((header, _column(expression)))
    return found


def _columns_of_file(name: str) -> list[Column]:
    if not name:
        raise UserError("custom-columns format specified but no custom columns given", 2)
    lines = [line.split() for line in _read(name, "error reading template").splitlines()]
    for place, part in enumerate(("header", "spec")):
        if len(lines) <= place or not lines[place]:
            raise UserError(f"invalid template, missing {part} line. {_TWO_LINES}", 2)
    headers, specs = lines[:2]
    if len(headers) != len(specs):
        raise UserError(
            f"number of headers ({len(headers)}) and field specifications ({len(specs)}) don't match", 2
        )
    return [(header, _column(spec)) for header, spec in zip(headers, specs, strict=True)]


def _column(expression: str) -> Template:
    if not expression:
        return Template("")
    try:
        return path(expression)
    except PathError as error:
        raise UserError(str(error), 2) from error


def _custom_columns(columns: Sequence[Column], headers: bool) -> Show:
    table = Table([header for header, _ in columns], headers=headers)

    def render(objects: Sequence[Named], _: bool) -> str:
        rows = [[_cell(template, obj) for _, template in columns] for _, obj in objects]
        text = table.text(rows)
        return f"{text}\n" if text else ""

    return render


def _cell(template: Template, obj: JsonObject) -> str:
    try:
        return ",".join(map(format_value, template.values(obj))) or "<none>"
    except PathError as error:
        raise UserError(str(error)) from error


def _read(name: str, what: str) -> str:
    try:
        return read_text(name)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{what} {name}, {error}", 2) from error
