"""Test the defaults that types declare. Non-pointer structs in Go get their defaults even if a request omits them."""

from typing import Any

import pytest

from tests.apiserver.kinds.resource.answers import errors


@pytest.mark.parametrize("spec", [{"spec": {}}, {}], ids=["empty", "missing"])
def test_an_empty_spec_gets_the_defaults_that_its_type_declares(spec: dict[str, Any]) -> None:
    request = {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "ResourcePoolStatusRequest",
        "metadata": {"name": "r"},
        **spec,
    }
    # The limit is 100 unless it is named, so that only the driver is missing.
    assert [field for _, field, _ in errors(request, "DRAResourcePoolStatus")] == ["spec.driver"]
