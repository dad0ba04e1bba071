"""docs/states.md draws the tables that the code follows."""

from pathlib import Path

import pytest
from dra_node_agent.kubelet.dra.phases import PREPARE, UNPREPARE
from dra_node_agent.kubelet.lifecycle import LIFECYCLE
from dra_shared.client.leader import ROLES
from dra_shared.states import markdown

_PAGE = Path(__file__).parents[2] / "docs" / "states.md"
_TABLES = {
    "pod": markdown(LIFECYCLE),
    "prepare": markdown(PREPARE),
    "unprepare": markdown(UNPREPARE),
    "leader election": markdown(ROLES),
}


@pytest.mark.parametrize("name", _TABLES)
def test_the_page_has_the_table_of_the_code(name: str) -> None:
    assert f"<!-- table: {name} -->\n{_TABLES[name]}" in _PAGE.read_text()


def test_no_table_is_forgotten() -> None:
    assert _PAGE.read_text().count("<!-- table: ") == len(_TABLES)
