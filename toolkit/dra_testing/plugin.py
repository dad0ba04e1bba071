"""The pytest plugin with the fixture ``dra_cluster``. It is loaded if dralab is installed.

The marker ``@pytest.mark.dra_cluster(nodes=2, gpus="4xH100-SXM5-80GB")`` on a test, its class or its module sets the
cluster's options; its ``scope`` is ``function``, ``module`` or ``session``. A cluster that several tests share is
rolled back before each test. Importing this module does not import the services.
"""

import functools
import inspect
import warnings
from collections.abc import Callable, Generator, Iterator
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dra_testing.blocking import Cluster
    from dra_testing.options import Options

MARKER = "dra_cluster"
_SCOPES = ("function", "module", "session")
_SECTIONS = pytest.StashKey[list[tuple[str, str]]]()
_SHARED = pytest.StashKey[dict[tuple[object, ...], "Cluster"]]()
_OWNER = pytest.StashKey["Cluster"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option and the ini value for the default scope of clusters."""
    group = parser.getgroup("dralab")
    text = "the scope of clusters of tests that do not set one: function, module or session"
    group.addoption("--dra-scope", choices=_SCOPES, help=text)
    parser.addini("dra_scope", text, default="function")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(nodes, gpus, drivers, version, gates, processes, fake_clock, operators, scope): "
        "what the fixture dra_cluster starts",
    )


@pytest.fixture
def dra_cluster(request: pytest.FixtureRequest) -> "Iterator[Any]":
    """Provide a cluster: a ``Cluster`` for a test function, an ``AsyncCluster`` for a test coroutine."""
    options, scope = _read_markers(request.node, request.config)
    asynchronous = inspect.iscoroutinefunction(getattr(request, "function", None))
    if scope == "function" and asynchronous and not options.processes:
        # The services must run on the test's own loop, which does not exist yet; see pytest_runtest_call.
        yield _Later(options)
        return
    if scope == "function":
        from dra_testing.blocking import Cluster

        with Cluster(options) as cluster:
            request.node.stash[_OWNER] = cluster
            yield _proxy(cluster) if asynchronous else cluster
        return
    cluster = _shared_cluster(request, options, scope)
    request.node.stash[_OWNER] = cluster
    yield _proxy(cluster) if asynchronous else cluster


class _Later:
    """A placeholder for a cluster that starts with the test."""

    def __init__(self, options: "Options") -> None:
        self.options = options

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(
            "this cluster runs on the test's own event loop and starts with it: only the test itself can use it. "
            'Fixtures can use one of @pytest.mark.dra_cluster(scope="module")'
        )


def _read_markers(node: Any, config: pytest.Config) -> "tuple[Options, str]":
    """Return the options and the scope from the markers. Markers closer to the test take precedence."""
    from dra_testing.options import Options

    given: dict[str, Any] = {}
    for marker in reversed(list(node.iter_markers(MARKER))):
        if marker.args:
            raise pytest.UsageError(f"{MARKER} takes only named arguments, not {marker.args!r}")
        given |= marker.kwargs
    scope = given.pop("scope", config.getoption("--dra-scope") or config.getini("dra_scope"))
    if scope not in _SCOPES:
        raise pytest.UsageError(f"{MARKER}: unknown scope {scope!r}: choose {', '.join(_SCOPES)}")
    known = [field.name for field in fields(Options)]
    if unknown := sorted(set(given) - set(known)):
        raise pytest.UsageError(
            f"{MARKER}: unknown {', '.join(unknown)}: choose {', '.join([*known, 'scope'])}"
        )
    try:
        return Options(**given), scope
    except (TypeError, ValueError) as error:
        raise pytest.UsageError(f"{MARKER}: {error}") from error


def _shared_cluster(request: pytest.FixtureRequest, options: "Options", scope: str) -> "Cluster":
    """Return a rolled-back cluster of earlier tests with these options, or start one."""
    from dra_testing.blocking import Cluster

    node = request.session if scope == "session" else request.node.getparent(pytest.Module)
    assert node is not None
    clusters = node.stash.setdefault(_SHARED, {})
    found = clusters.get(options.key)
    if found is not None and not found.is_damaged and not options.processes and _is_rolled_back(found):
        return found
    if found is not None:
        found.stop()
    else:
        node.addfinalizer(functools.partial(_stop, clusters, options.key))
    clusters.pop(options.key, None)
    made = Cluster(options)
    made.start()
    clusters[options.key] = made
    return made


def _is_rolled_back(cluster: "Cluster") -> bool:
    """Roll the cluster back. If that fails, warn and return False: this test is not to blame for an earlier one."""
    from dra_testing.rollback import RollbackTimeout

    try:
        cluster.rollback()
    except RollbackTimeout as error:
        text = f"an earlier test left the cluster in a state that cannot be rolled back; a new one starts: {error}"
        warnings.warn(text, stacklevel=2)
        return False
    return True


def _stop(clusters: dict[tuple[object, ...], "Cluster"], key: tuple[object, ...]) -> None:
    cluster = clusters.pop(key, None)
    if cluster is not None:
        cluster.stop()


# Clients are used on the test's loop, not on the cluster's, because their connections belong to it.
_CLIENTS = frozenset({"httpx", "kr8s", "kubernetes", "lightkube"})


class _Hop:
    """A proxy of an ``AsyncCluster`` or ``AsyncPod`` whose coroutines run on the cluster's own loop."""

    def __init__(self, cluster: "Cluster", target: Any) -> None:
        self._cluster, self._target = cluster, target

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if name in _CLIENTS:
            return value
        if inspect.iscoroutinefunction(value):
            return lambda *args, **kwargs: self._cluster.run_from(value(*args, **kwargs))
        if name == "pod":
            return lambda *args, **kwargs: _Hop(self._cluster, value(*args, **kwargs))
        return value


def _proxy(cluster: "Cluster") -> Any:
    return _Hop(cluster, cluster.asynchronous)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Start the cluster of a test coroutine on the test's own loop.

    The test is wrapped before the plugin that runs coroutines sees it, so the cluster starts and stops with it.
    """
    arguments = getattr(item, "funcargs", {})
    later = arguments.get(MARKER)
    if isinstance(later, _Later) and isinstance(item, pytest.Function):
        item.obj = _within(item, item.obj, later.options)


def _within(item: pytest.Item, test: Callable[..., Any], options: "Options") -> Callable[..., Any]:
    @functools.wraps(test)
    async def run(**arguments: Any) -> None:
        from dra_testing.cluster import AsyncCluster

        async with AsyncCluster(options) as cluster:
            try:
                await test(**{**arguments, MARKER: cluster})
            except BaseException:
                from dra_testing.report import sections

                item.stash[_SECTIONS] = await sections(cluster, _folder(item))
                raise

    return run


def _folder(item: pytest.Item) -> Path:
    """Return a new folder for the bundle of a failed test."""
    factory = item.config._tmp_path_factory  # type: ignore[attr-defined]  # what the fixture tmp_path_factory gives
    folder: Path = factory.mktemp("dralab")
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the cluster's events, explanations and bundle to the report of a failed test."""
    report = yield
    if call.when == "call" and report.failed:
        found = item.stash.get(_SECTIONS, [])
        owner: Any = item.stash.get(_OWNER, None)
        if owner is not None:
            from dra_testing.report import sections

            found = owner.run(sections(owner.asynchronous, _folder(item)))
        report.sections += found
    return report
