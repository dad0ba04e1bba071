"""Each Dockerfile: the files and programs that it uses exist, and no process is root."""

import itertools
import json
import re
import shlex
import tomllib

import pytest

from tests.support.reference import REPOSITORY

SERVICES = ("apiserver", "scheduler", "controller", "node-agent")


ALL_IN_ONE = "."


def _instructions(service: str) -> list[tuple[str, str]]:
    folder = REPOSITORY if service == ALL_IN_ONE else REPOSITORY / "services" / service
    text = (folder / "Dockerfile").read_text()
    lines = re.sub(r"\\\n", " ", text).splitlines()
    return [
        (name, rest)
        for name, _, rest in (line.partition(" ") for line in lines if line and not line.startswith("#"))
    ]


def _values(service: str, name: str) -> list[str]:
    return [rest for instruction, rest in _instructions(service) if instruction == name]


@pytest.mark.parametrize("service", [*SERVICES, ALL_IN_ONE])
def test_files_that_a_dockerfile_copies_exist_and_are_not_ignored(service: str) -> None:
    kept = {
        line.removeprefix("!")
        for line in (REPOSITORY / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = [rest for rest in _values(service, "COPY") if not rest.startswith(("--from=", ". "))]
    sources = [source for rest in copied for source in shlex.split(rest)[:-1]]
    assert sources
    for source in sources:
        assert (REPOSITORY / source).exists(), f"COPY {source}"
        assert source.split("/")[0] in kept, f"{source} is left out by .dockerignore"


@pytest.mark.parametrize("service", SERVICES)
def test_the_image_starts_an_entry_point_of_its_package(service: str) -> None:
    (entry,) = _values(service, "ENTRYPOINT")
    project = tomllib.loads((REPOSITORY / "services" / service / "pyproject.toml").read_text())["project"]
    assert json.loads(entry)[0] in project["scripts"]


@pytest.mark.parametrize("service", SERVICES)
def test_the_entry_point_has_the_options_of_the_command(service: str) -> None:
    (command,) = _values(service, "CMD")
    package = f"dra_{service.replace('-', '_')}"
    sources = "".join(p.read_text() for p in (REPOSITORY / "services" / service / package).glob("*.py"))
    sources += (REPOSITORY / "shared/dra_shared/service.py").read_text()
    for word in json.loads(command):
        if word.startswith("--"):
            assert f'"{word}"' in sources, f"{service} has no option {word}"


@pytest.mark.parametrize("service", SERVICES)
def test_the_image_has_an_ordinary_user_and_a_pinned_base(service: str) -> None:
    (user,) = _values(service, "USER")
    assert int(user.split(":")[0]) > 0
    (base,) = _values(service, "ARG")
    assert re.fullmatch(r"BASE=python:3\.\d+\.\d+-slim-\w+", base)


@pytest.mark.parametrize("service", SERVICES)
def test_requirements_lock_has_every_dependency_with_its_hash(service: str) -> None:
    lock = (REPOSITORY / "services" / service / "requirements.lock").read_text()
    pinned = set(re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE))
    entries = re.findall(r"^[a-z0-9-]+==", lock, re.MULTILINE)
    assert lock.count("--hash=") >= len(entries)
    assert "://" not in lock
    for pyproject in ("shared/pyproject.toml", f"services/{service}/pyproject.toml"):
        for need in tomllib.loads((REPOSITORY / pyproject).read_text())["project"]["dependencies"]:
            name = re.match(r"[A-Za-z0-9-]+", need)
            assert name is not None
            if not need.startswith("dra-"):
                assert name.group().lower() in pinned


@pytest.mark.parametrize("service", SERVICES)
def test_only_services_with_data_have_a_volume(service: str) -> None:
    assert _values(service, "VOLUME") == [
        command["--data"]
        for (text,) in [_values(service, "CMD")]
        for command in [dict(itertools.pairwise(json.loads(text)))]
        if "--data" in command
    ]


def test_the_combined_image_has_the_files_that_its_documentation_links_to() -> None:
    """All files that pages show, and the sources of the reference, are in the context that the stage copies."""
    kept = {line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line[:1] == "!"}
    links = {
        (page.parent / link).resolve()
        for page in (REPOSITORY / "docs").rglob("*.md")
        for link in re.findall(r"\]\((\.\./[^)#]+)", page.read_text())
    }
    inside = {path.relative_to(REPOSITORY).parts[0] for path in links if path != REPOSITORY}
    assert inside <= kept
    assert {"docs", "bench", "requirements-dev.lock"} <= kept
    assert "--from=site /src/site site" in _values(ALL_IN_ONE, "COPY")
