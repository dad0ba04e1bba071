"""docs/kubernetes.md says of each kind how deep its rules go, as the records of the kinds have it."""

from tests.docs.depth import reasons, table
from tests.support.reference import REPOSITORY


def test_the_page_has_the_table_of_the_kinds() -> None:
    page = (REPOSITORY / "docs/kubernetes.md").read_text()
    assert f"<!-- table: kinds -->\n{table()}\n" in page, f"docs/kubernetes.md needs this table:\n{table()}"


def test_the_page_says_why_kinds_stay_on_which_no_service_acts() -> None:
    page = (REPOSITORY / "docs/kubernetes.md").read_text()
    assert f"<!-- table: reasons -->\n{reasons()}\n" in page, (
        f"docs/kubernetes.md needs this table:\n{reasons()}"
    )
