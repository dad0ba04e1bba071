"""Amounts that quotas name."""

from dra_shared.quota import equal


def test_amounts_are_equal_by_value() -> None:
    assert equal({"requests.memory": "2000", "pods": "1"}, {"pods": "1", "requests.memory": "2k"})
    assert equal({"requests.memory": "1073741824"}, {"requests.memory": "1Gi"})
    assert not equal({"requests.memory": "1G"}, {"requests.memory": "1Gi"})
    assert not equal({"pods": "0"}, {})
