"""docs/testing-with-dralab.md names exactly the existing methods and arguments."""

import re
from dataclasses import fields

from dra_testing.options import Options
from dralab.testing import Cluster

from tests.support.reference import REPOSITORY

# Methods that a context manager calls itself, that another table has, or that few tests need. `running` is an
# old name.
_RARE = {"advance", "data", "is_damaged", "options", "run", "run_from", "running", "start", "stop"}
_PAGE = (REPOSITORY / "docs" / "testing-with-dralab.md").read_text()


def _first_cells(head: str) -> list[str]:
    table = _PAGE.partition(head)[2].partition("\n\n")[0]
    return re.findall(r"^\| (.*?) \|", table, re.MULTILINE)


def test_each_argument_of_the_marker_has_a_row() -> None:
    rows = set(re.findall(r"`(\w+)`", " ".join(_first_cells("| argument | default | |\n|---|---|---|\n"))))
    assert rows == {"scope", *(field.name for field in fields(Options))}


def test_each_method_of_a_cluster_has_a_row() -> None:
    cells = _first_cells("| method | |\n|---|---|\n")
    rows = {re.split(r"\W", code)[0] for cell in cells for code in re.findall(r"`(\w[^`]*)`", cell)}
    public = {name for name in vars(Cluster) if not name.startswith("_")}
    assert rows <= public
    assert public - rows == _RARE
