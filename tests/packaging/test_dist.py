"""``make dist``, tested as by a user, in an environment without the checkout."""

import platform
import re
import shutil
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from dra_shared import __version__
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.packaging.conftest import WHEEL, install, run
from tests.support.reference import REPOSITORY
from tests.support.sampling import sample

# The first test builds the files that all of them read.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_the_installed_dralab_uses_no_file_of_the_checkout(empty: Path) -> None:
    shown = run(empty / "python", "-c", "import dra_shared; print(dra_shared.__file__)", cwd=empty)
    assert Path(shown.strip()).is_relative_to(empty.parent)


@pytest.mark.parametrize("command", [("dralab",), ("python", "-m", "dralab")], ids=" ".join)
def test_the_installed_command_prints_its_version(empty: Path, command: tuple[str, ...]) -> None:
    shown = run(empty / command[0], *command[1:], "--version", cwd=empty)
    assert shown.splitlines()[0] == f"dralab {__version__}"


@pytest.fixture
def data(empty: Path, tmp_path: Path) -> Iterator[Path]:
    run(
        empty / "dralab",
        "up",
        "-d",
        "--nodes",
        "1",
        "--port",
        "0",
        "--relaxed",
        "--data",
        tmp_path,
        cwd=empty,
    )
    yield tmp_path
    run(empty / "dralab", "down", "--data", tmp_path, cwd=empty)


def test_an_installed_dralab_runs_a_pod(empty: Path, data: Path) -> None:
    manifest = data / "pod.yaml"
    manifest.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
        "spec: {containers: [{name: c, image: i, command: [echo, it runs]}], restartPolicy: Never}\n"
    )
    run(empty / "dralab", "apply", "-f", manifest, "--data", data, cwd=empty)
    assert run(empty / "dralab", "logs", "-f", "p", "--data", data, cwd=empty) == "it runs\n"


def test_the_wheel_has_the_examples(empty: Path, tmp_path: Path) -> None:
    run(empty / "dralab", "new", "examples", cwd=tmp_path)
    examples = REPOSITORY / "examples"
    copies = sorted(
        path.relative_to(tmp_path / "examples") for path in (tmp_path / "examples").rglob("*.yaml")
    )
    assert copies == sorted(path.relative_to(examples) for path in examples.rglob("*.yaml"))


def test_the_sdist_has_the_sources_of_the_wheel(dist: Path) -> None:
    with zipfile.ZipFile(dist / WHEEL) as wheel, tarfile.open(next(dist.glob("*.tar.gz"))) as sdist:
        inside = {
            name
            for name in wheel.namelist()
            if not re.search(r"\.dist-info/|/examples/|^dra_cli/site/", name)
        }
        archived = {name.partition("/")[2] for name in sdist.getnames()}
    packages = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    sources = {f"{Path(path).parent}/" for path in packages["wheel"]["packages"]}
    assert {name for name in inside if not any(source + name in archived for source in sources)} == set()
    assert {"pyproject.toml", "tools/hatch_build.py", "LICENSE"} <= archived


def test_the_wheel_declares_its_extras(dist: Path) -> None:
    with zipfile.ZipFile(dist / WHEEL) as wheel:
        described = wheel.read(f"dralab-{__version__}.dist-info/METADATA").decode()
    extras = {
        "docker": "docker",
        "console": "fastapi",
        "postgresql": "psycopg[binary]",
        "dask": "distributed",
    }
    for extra, need in extras.items():
        assert f"Requires-Dist: {need}; extra == '{extra}'" in described
    assert "Requires-Dist: httpx\n" in described


def _version(python: str) -> str:
    return run(python, "-c", "import platform; print(platform.python_version())").strip()


def _other_pythons() -> list[str]:
    """Return an interpreter of each installed version that is supported, except for that of the tests."""
    others = {_version(python): python for python in run("tools/pythons").split()}
    others.pop(platform.python_version(), None)
    return list(others.values())


def test_the_installed_files_run_on_each_installed_python(empty: Path) -> None:
    """They are the same for each version, so an environment of each would repeat what one shows."""
    site = next(empty.parent.glob("lib/python*/site-packages"))
    for python in _other_pythons():
        # Compiled files in this folder would be new to the wheel's record.
        shown = run(python, "-B", "-m", "dralab", "--version", cwd=empty, PYTHONPATH=str(site))
        assert shown.splitlines()[0] == f"dralab {__version__}"


def test_the_wheel_can_be_installed_with_each_other_supported_python(locked: Path, tmp_path: Path) -> None:
    """`make dist` downloads what the lock names for each version; `make try-dist` installs that and runs the demo."""
    others = _other_pythons()
    for python in sample(others, 1):
        commands = install(python, locked, tmp_path / "environment")
        shown = run(commands / "dralab", "--version", cwd=tmp_path)
        assert shown.splitlines()[0] == f"dralab {__version__}"


def test_every_supported_python_version_satisfies_requires_python() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: "
    versions = [line.removeprefix(prefix) for line in project["classifiers"] if line.startswith(prefix)]
    assert versions
    assert project["requires-python"] == f">={versions[0]}"
    assert all(SpecifierSet(project["requires-python"]).contains(version) for version in versions)


def test_requirements_lock_has_no_markers_that_depend_on_the_python_version() -> None:
    """`make dist` downloads for several versions with one pip, which evaluates markers for its own."""
    markers = [
        requirement.marker
        for line in (REPOSITORY / "requirements.lock").read_text().splitlines()
        if line[:1].isalnum() and (requirement := Requirement(line.rstrip("\\ "))).marker
    ]
    assert not [
        marker for marker in markers if "python_version" in str(marker) or "python_full" in str(marker)
    ]


_OLD = next(map(str, Path.home().glob(".pyenv/versions/3.10.*/bin/python")), shutil.which("python3.10"))


@pytest.mark.skipif(_OLD is None, reason="needs Python 3.10")
def test_an_older_python_is_rejected_in_one_line(tmp_path: Path) -> None:
    """The metadata hook works on it and requires nothing, as pip collects dependencies before it compares versions."""
    script = (
        "import sys; sys.modules['hatchling'] = sys\n"
        "class Interface: root = '.'; config = {'command': ['a'], 'parts': ['shared']}\n"
        "Interface.__class_getitem__ = classmethod(lambda cls, item: cls)\n"
        "for kind in ('builders.hooks', 'metadata'):\n"
        "    module = type(sys)(kind); module.BuildHookInterface = module.MetadataHookInterface = Interface\n"
        "    sys.modules[f'hatchling.{kind}.plugin.interface'] = module\n"
        "import runpy; hooks = runpy.run_path(sys.argv[1])\n"
        "metadata = {}; hooks['Gather']().update(metadata); print(metadata)\n"
    )
    shown = run(str(_OLD), "-c", script, REPOSITORY / "tools/hatch_build.py", cwd=tmp_path)
    assert shown == "{'dependencies': [], 'optional-dependencies': {}}\n"
