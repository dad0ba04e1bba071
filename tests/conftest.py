"""Settings of all tests: property tests try the same examples in every run, however busy the machine is.

``HYPOTHESIS_PROFILE=search`` tries others.
"""

import gc
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer

from tests.support import failures, leftovers, sampling
from tests.support.delays import delay_clients
from tests.support.quick import Quick
from tests.support.spreading import Spreading, folders_from, slow_first
from tests.support.tlscontexts import share_default_context

_TESTS = Path(__file__).parent
# Thresholds of the garbage collector. A test creates many objects, most of which are freed by reference
# counting. With Python's default thresholds, examining them takes an eighth of the time of a run.
_THRESHOLDS = (25_000, 3, 10)

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="skip tests that start a process or open a socket")
    parser.addoption(
        "--delays",
        type=int,
        metavar="SEED",
        help="delay each request and watch of dralab's HTTP client at random; the seed makes delays repeatable",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--quick"):
        config.pluginmanager.register(Quick())
    failures.register(config)
    leftovers.register(config)
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    share_default_context(patch)
    if (seed := config.getoption("--delays")) is not None:
        delay_clients(patch, seed)


def pytest_report_header() -> str:
    return f"sample: {sampling.seed()}"


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Exempt the collected tests from garbage collection: they are a million objects that never become garbage."""
    _begin_elsewhere(session.config)
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*_THRESHOLDS)
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slow_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Spreading:
    return Spreading(config, log)


def _begin_elsewhere(config: pytest.Config) -> None:
    """Let each of xdist's workers collect the folders in another order, if it collects them all."""
    worker = getattr(config, "workerinput", None)
    if worker is not None and config.args in (["tests"], [str(_TESTS)]):
        number = int(worker["workerid"].removeprefix("gw"))
        folders = folders_from(_TESTS, number, worker["workercount"])
        # pytest does not call this hook for folders that are given as arguments.
        ignored = config.hook.pytest_ignore_collect
        config.args = [str(path) for path in folders if not ignored(collection_path=path, config=config)]
