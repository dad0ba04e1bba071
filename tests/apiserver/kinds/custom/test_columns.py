"""Test the cells of custom resources' tables (apiextensions' ``tableconvertor``)."""

from datetime import UTC, datetime
from typing import Any

from dra_apiserver.kinds.custom.columns import custom_printer

from tests.support.cases import each_case

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
OBJECT = {
    "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {"size": 3, "on": True, "ratio": 2.5, "names": ["x", "y"], "map": {"a.b": "c"}},
    "status": {
        "conditions": [
            {"type": "Admitted", "status": "True"},
            {"type": "Finished", "status": "False", "at": "never"},
        ]
    },
}


@each_case(
    ("kind", "path", "cell"),
    [
        ("string", ".spec.size", "3"),
        ("string", ".spec.on", "true"),
        ("string", ".spec.map", '{"a.b":"c"}'),
        ("string", ".spec.map.a\\.b", "c"),
        ("string", ".spec.names[*]", "x"),
        ("string", ".spec.names[1]", "y"),
        ("string", ".spec.names[9]", None),
        ("string", ".spec.nothing", None),
        ("string", ".status.conditions[?(@.type=='Admitted')].status", "True"),
        ("string", '.status.conditions[?(@.type=="Other")].status', None),
        ("string", ".status.conditions[-1:].type", "Finished"),
        ("integer", ".spec.size", 3),
        ("integer", ".spec.ratio", 2),
        ("integer", ".spec.on", None),
        ("number", ".spec.ratio", 2.5),
        ("boolean", ".spec.on", True),
        ("boolean", ".spec.size", None),
        ("date", ".metadata.creationTimestamp", "60m"),
        ("date", ".status.conditions[1].at", "<invalid>"),
        ("date", ".spec.size", None),
    ],
)
def test_a_cell_shows_the_first_value_of_the_columns_type(kind: str, path: str, cell: Any) -> None:
    printer = custom_printer([{"name": "Column", "type": kind, "jsonPath": path}])
    assert printer.cells(OBJECT, NOW) == ["a", cell]


def test_column_without_a_description_shows_its_path() -> None:
    printer = custom_printer([{"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1}])
    column = printer.columns[1]
    assert (column.name, column.priority) == ("Size", 1)
    assert column.description == "Custom resource definition column (in JSONPath format): .spec.size"


def test_table_without_columns_shows_the_age() -> None:
    assert custom_printer([]).cells(OBJECT, NOW) == ["a", "60m"]
