"""The tables of docs/ that are generated from the code are up to date."""

import re
from collections import Counter

import pytest
from dra_cli import commandline, plugin
from dra_shared.version import DEFAULT, release

from tests.docs.flags import service_options
from tests.support.cases import each_case
from tools.reference.tables import ROOT, TABLES, blocks, pages, render

_BLOCKS = [block for page in pages() for block in blocks(page.read_text())]
_SHOWN = dict(_BLOCKS)


@each_case("name", TABLES)
def test_generated_tables_in_the_docs_are_up_to_date(name: str) -> None:
    text = f"<!-- generated: {name} -->\n{_SHOWN[name]}<!-- end -->"
    assert text == render(text), "run make reference"


def test_each_table_is_on_one_page() -> None:
    assert Counter(name for name, _ in _BLOCKS) == Counter(list(TABLES))


def test_each_command_and_subcommand_has_a_row() -> None:
    rows = set(re.findall(r"`([a-z -]+)`", "".join(_first_cells("commands"))))
    assert {row.partition(" ")[0] for row in rows} == commandline.COMMANDS.keys()
    assert {"plan fit", "node drain", "snapshot save", "new driver", "learn hint", "conformance cel"} <= rows


@pytest.mark.parametrize("service", ["apiserver", "scheduler", "controller", "node-agent"])
def test_each_flag_of_a_service_has_a_row(service: str) -> None:
    tables = ["flags of all services", f"flags of dralab-{service}"]
    if service != "apiserver":
        tables.append("flags of clients")
    rows = Counter(flag for table in tables for cell in _first_cells(table) for flag in _flags(cell))
    parser = service_options(f"dra_{service.replace('-', '_')}")
    flags = Counter(flag for action in parser._actions for flag in action.option_strings)
    assert rows == flags - Counter(["-h", "--help"])


def test_the_command_page_names_the_equivalent_kubectl_commands() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    sentence = page.partition("`kubectl dra ")[2].partition(" are the same commands")[0]
    assert re.findall(r"(\w+)`", sentence) == plugin.commands()


def test_the_table_of_gates_has_their_defaults() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| \w+ \| (on|off)", _SHOWN["feature gates"], re.MULTILINE))
    gates = release(DEFAULT).gates
    assert rows == {name: "on" if gates[name].default else "off" for name in rows}
    assert {"DRAPartitionableDevices", "DRADerivedAttributes"} <= rows.keys()
    assert "ContextualLogging" not in rows


def test_a_metric_has_the_help_of_its_own_function() -> None:
    row = next(
        line
        for line in _SHOWN["metrics of the scheduler"].splitlines()
        if "`scheduler_queued_entities`" in line
    )
    assert "Pods that are in no group, and pod groups" in row


def test_an_unknown_table_is_an_error() -> None:
    with pytest.raises(KeyError):
        render("<!-- generated: nothing -->\n<!-- end -->")


def _first_cells(table: str) -> list[str]:
    return re.findall(r"^\| (.*?) \|", _SHOWN[table], re.MULTILINE)


def _flags(cell: str) -> list[str]:
    return re.findall(r"`(-[^`]+)`", cell)
