"""The pytest plugin :mod:`dra_testing.plugin` by its public name."""

from dra_testing.plugin import (
    dra_cluster,
    pytest_addoption,
    pytest_configure,
    pytest_runtest_call,
    pytest_runtest_makereport,
)

__all__ = [
    "dra_cluster",
    "pytest_addoption",
    "pytest_configure",
    "pytest_runtest_call",
    "pytest_runtest_makereport",
]
