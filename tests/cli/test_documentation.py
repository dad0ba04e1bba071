"""Where the documentation's site is found, and how it is served."""

import importlib.util
import subprocess
from pathlib import Path

import httpx
import pytest
from dra_cli import documentation
from dra_shared.errors import UserError


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation without a checkout, and without a site."""
    monkeypatch.setattr(documentation, "_INSTALLED", tmp_path / "dra_cli" / "site")
    monkeypatch.setattr(documentation, "_CHECKOUT", tmp_path)
    return tmp_path


def _site(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "index.html").write_text("<h1>dralab</h1>")
    return folder


def test_the_distribution_brings_it_along(installed: Path) -> None:
    with pytest.raises(UserError, match="this dralab was built without its documentation"):
        documentation.find()
    site = _site(installed / "dra_cli" / "site")
    assert documentation.find() == site


def test_a_checkout_builds_it_when_it_is_first_asked_for(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (installed / "tools" / "site").mkdir(parents=True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="run `make docs`"):
        documentation.find()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    built: list[Path] = []

    def build(command: list[str], *, cwd: Path, check: bool) -> subprocess.CompletedProcess[str]:
        assert command[1:] == ["-m", "tools.site"]
        built.append(_site(cwd / "site"))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", build)
    assert [documentation.find(), documentation.find()] == built * 2


def test_a_site_that_cannot_be_built_is_an_error(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (installed / "tools" / "site").mkdir(parents=True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(subprocess, "run", lambda command, **more: subprocess.CompletedProcess(command, 1))
    with pytest.raises(UserError, match="cannot be built"):
        documentation.find()


def test_pages_are_held_to_what_is_served(installed: Path) -> None:
    with documentation.serve(lambda: _site(installed / "site"), 0) as server:
        answer = httpx.get(server.url)
        assert answer.text == "<h1>dralab</h1>"
        assert answer.headers["content-security-policy"].startswith("default-src 'self'")
        assert httpx.get(f"{server.url}../pyproject.toml").status_code == 404
        assert httpx.get(f"{server.url}gone").headers["content-security-policy"]


def test_a_port_in_use_is_an_error(installed: Path) -> None:
    def build() -> Path:
        raise AssertionError("the site is built though nothing can show it")

    with documentation.serve(lambda: _site(installed / "site"), 0) as server:
        port = int(server.url.rstrip("/").rpartition(":")[2])
        with (
            pytest.raises(UserError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"),
            documentation.serve(build, port),
        ):
            pass


def test_it_may_be_served_to_others(tmp_path: Path) -> None:
    with documentation.serve(lambda: _site(tmp_path / "site"), 0, "0.0.0.0") as server:
        assert server.url.startswith("http://0.0.0.0:")
        assert httpx.get(server.url.replace("0.0.0.0", "127.0.0.1")).text == "<h1>dralab</h1>"
