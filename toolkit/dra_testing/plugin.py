"""The pytest plugin, loaded where dralab is installed: the fixture ``dra_cluster``.

What the cluster is like comes from a marker, ``@pytest.mark.dra_cluster(nodes=2, gpus="4xH100-SXM5-80GB")``, on the
test, its class or its module; ``scope`` there is ``function``, ``module`` or ``session``. A cluster that several tests
share is rolled back before each. Importing this module imports nothing of the services.
"""

import functools
import inspect
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
    """Add what says how long clusters live, where a test does not say it."""
    group = parser.getgroup("dralab")
    text = "how long a cluster lives whose test does not say it: function, module or session"
    group.addoption("--dra-scope", choices=_SCOPES, help=text)
    parser.addini("dra_scope", text, default="function")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(nodes, gpus, drivers, version, gates, processes, fake_clock, scope): "
        "what the fixture dra_cluster starts",
    )


@pytest.fixture
def dra_cluster(request: pytest.FixtureRequest) -> "Iterator[Any]":
    """A cluster: a ``Cluster`` for a test that is a function, an ``AsyncCluster`` for one that is a coroutine."""
    options, scope = _wanted(request.node, request.config)
    asynchronous = inspect.iscoroutinefunction(getattr(request, "function", None))
    if scope == "function" and asynchronous and not options.processes:
        # The services belong on the test's own loop, which is not there yet: see pytest_runtest_setup.
        yield _Later(options)
        return
    if scope == "function":
        from dra_testing.blocking import Cluster

        with Cluster(options) as cluster:
            request.node.stash[_OWNER] = cluster
            yield _hopping(cluster) if asynchronous else cluster
        return
    cluster = _shared(request, options, scope)
    request.node.stash[_OWNER] = cluster
    yield _hopping(cluster) if asynchronous else cluster


class _Later:
    """Stands for a cluster that starts with the test."""

    def __init__(self, options: "Options") -> None:
        self.options = options

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(
            "this cluster runs on the test's own event loop and starts with it: only the test itself can use it. "
            'Fixtures can use one of @pytest.mark.dra_cluster(scope="module")'
        )


def _wanted(node: Any, config: pytest.Config) -> "tuple[Options, str]":
    """The options and the scope that the markers ask for, the closest one deciding."""
    from dra_testing.options import Options

    given: dict[str, Any] = {}
    for marker in reversed(list(node.iter_markers(MARKER))):
        if marker.args:
            raise pytest.UsageError(f"{MARKER} takes named arguments alone, not {marker.args!r}")
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


def _shared(request: pytest.FixtureRequest, options: "Options", scope: str) -> "Cluster":
    """The cluster of that kind which earlier tests had, as if it were new."""
    from dra_testing.blocking import Cluster

    node = request.session if scope == "session" else request.node.getparent(pytest.Module)
    assert node is not None
    clusters = node.stash.setdefault(_SHARED, {})
    found = clusters.get(options.key)
    if found is not None and not found.worn and not options.processes:
        found.rollback()
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


def _stop(clusters: dict[tuple[object, ...], "Cluster"], key: tuple[object, ...]) -> None:
    cluster = clusters.pop(key, None)
    if cluster is not None:
        cluster.stop()


# Their connections belong to the loop of the test, which uses them.
_CLIENTS = frozenset({"httpx", "kr8s", "kubernetes", "lightkube"})


class _Hop:
    """An ``AsyncCluster`` or ``AsyncPod`` whose coroutines run on the loop that its cluster has."""

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


def _hopping(cluster: "Cluster") -> Any:
    return _Hop(cluster, cluster.asynchronous)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Start a coroutine's cluster on its own loop: with the coroutine, and before whatever runs it sees it."""
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
    """Where the bundle of a failed test goes."""
    factory = item.config._tmp_path_factory  # type: ignore[attr-defined]  # what the fixture tmp_path_factory gives
    folder: Path = factory.mktemp("dralab")
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what is known of the cluster to the report of a failed test."""
    report = yield
    if call.when == "call" and report.failed:
        found = item.stash.get(_SECTIONS, [])
        owner: Any = item.stash.get(_OWNER, None)
        if owner is not None:
            from dra_testing.report import sections

            found = owner.run(sections(owner.asynchronous, _folder(item)))
        report.sections += found
    return report
