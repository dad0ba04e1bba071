"""What all tests share: property tests look at the same examples in every run, however busy the machine is.

``HYPOTHESIS_PROFILE=search`` has them look at others.
"""

import os

import pytest
from hypothesis import settings

from tests.support.quick import Quick

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="skip what starts a process or opens a socket")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--quick"):
        config.pluginmanager.register(Quick())
