"""``dralab new``: the generated driver project works, and the examples are those of the checkout."""

import subprocess
import sys
from pathlib import Path

import pytest
from dra_cli import commandline
from dra_cli.project.writer import Names
from dra_shared.errors import UserError

from tests.support.reference import REPOSITORY


def _new(*words: str) -> int:
    return commandline.run("new", ["driver", *words])


def _run(folder: Path, *words: str) -> None:
    ended = subprocess.run([sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    assert _new("a-card.acme.io", "-o", str(folder)) == 0
    return folder


@pytest.mark.slow
@pytest.mark.system
def test_tests_of_a_new_project_pass(project: Path) -> None:
    _run(project, "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")


@pytest.mark.slow
@pytest.mark.system
def test_a_failing_test_of_a_new_project_does_not_break_the_following_ones(project: Path) -> None:
    """Once, the test's pod was left behind, and each later test ended with a TimeoutError without a text."""
    file = project / "tests/test_driver.py"
    wrong = """
def test_a_failing_test_leaves_its_pod_running(cluster: Cluster) -> None:
    cluster.apply(_example("turbo", "sleep 1000"))
    cluster.pod("a-card-user").wait_for("Running")
    raise AssertionError


"""
    head, mark, rest = file.read_text().partition("def test_a_pod_gets_a_device_in_the_mode")
    file.write_text(f"{head.rstrip()}\n\n{wrong}{mark}{rest}")
    words = [
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "no:randomly",
        "tests/test_driver.py",
    ]
    ended = subprocess.run(
        [sys.executable, "-m", *words], cwd=project, capture_output=True, text=True, check=False
    )
    assert "1 failed, 5 passed" in ended.stdout, ended.stdout


@pytest.mark.system
@pytest.mark.parametrize("name", ["a-card.acme.io", "npu.acme.example"])
def test_a_new_project_passes_ruff(tmp_path: Path, name: str) -> None:
    project = tmp_path / "project"
    assert _new(name, "-o", str(project)) == 0
    _run(project, "ruff", "check", "--no-cache", "--select", "E,F,W,I,B,UP", ".")
    _run(project, "ruff", "format", "--no-cache", "--check", ".")


def test_a_new_project_names_only_the_new_driver(project: Path) -> None:
    files = [path for path in project.rglob("*") if path.is_file()]
    assert (project / ".github/workflows/ci.yml") in files
    assert (project / "src/a_card_driver/driver.py") in files
    assert not [path for path in files if "dongle" in (str(path) + path.read_text()).lower()]
    text = (project / "deploy/driver.yaml").read_text()
    assert "name: a-card-driver\n" in text
    assert "class ACardDriver:" in (project / "src/a_card_driver/driver.py").read_text()


def test_an_existing_folder_is_not_overwritten(project: Path) -> None:
    with pytest.raises(UserError, match="exists already"):
        _new("other.acme.io", "-o", str(project))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dongle", "must end with your domain"),
        ("Dongle.example.com", "a lowercase RFC 1123 subdomain"),
        ("0dongle.example.com", "'0dongle' cannot name devices"),
        (f"{'d' * 60}.example.com", "must be no more than 63"),
    ],
)
def test_an_invalid_driver_name_is_rejected(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Names.of(name)


def test_the_short_name_of_a_new_driver_can_be_chosen() -> None:
    assert Names.of("gpu.acme.io", "card").replace_in(
        "dongle_driver of dongle.example.com: DongleDriver"
    ) == ("card_driver of gpu.acme.io: CardDriver")


def test_the_new_command_copies_examples_and_keeps_existing_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    edited = tmp_path / "examples/pending/wants-h100.yaml"
    edited.parent.mkdir(parents=True)
    edited.write_text("edited")
    assert commandline.run("new", ["examples"]) == 0
    assert edited.read_text() == "edited"
    for file in (REPOSITORY / "examples").rglob("*.yaml"):
        copy = tmp_path / file.relative_to(REPOSITORY)
        assert copy == edited or copy.read_bytes() == file.read_bytes()


def test_a_driver_name_is_rejected_for_examples() -> None:
    with pytest.raises(UserError, match="are for a driver"):
        commandline.run("new", ["examples", "dongle.example.com"])


def test_the_image_of_a_new_driver_takes_the_wheel_that_its_ci_builds(project: Path) -> None:
    ci = (project / ".github/workflows/ci.yml").read_text()
    assert 'pip wheel --no-deps --wheel-dir wheels "$DRALAB" && docker build -t a-card-driver .' in ci
    dockerfile = (project / "Dockerfile").read_text()
    # `COPY wheels*` copies what is in the folder, and nothing if there is none.
    assert "COPY pyproject.toml README.md wheels* ./" in dockerfile
    assert "--find-links . ." in dockerfile
    assert "wheels/" in (project / ".gitignore").read_text().splitlines()
