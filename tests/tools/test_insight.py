"""Test the schemas of the answers below ``/insight``."""

import re

from tools import insight


def test_schemas_of_the_api_server_are_those_of_the_structs() -> None:
    assert insight.FILE.read_text() == insight.text(), "run make reference"


def test_every_reference_has_a_schema() -> None:
    found = insight.schemas()["schemas"]
    references = set(re.findall(r"#/components/schemas/(\w+)", insight.text()))
    assert "PodReport" in references
    assert references <= set(found)
