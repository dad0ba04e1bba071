"""Finding the documentation's site, and serving it."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from dra_cli.documentation import server
from dra_cli.documentation.pages import Pages
from dra_shared.errors import UserError


@pytest.fixture
def bare_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an installation without a checkout, and without a site."""
    monkeypatch.setattr(server, "_PACKAGE", tmp_path / "dra_cli")
    monkeypatch.setattr(server, "_CHECKOUT", tmp_path)
    return tmp_path


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    return tmp_path / "scratch"


def _site(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "index.html").write_text("<h1>dralab</h1>")
    return folder


def _docs(repository: Path) -> None:
    (repository / "docs").mkdir()
    (repository / "docs/README.md").write_text("# Our pages\n\n## Guides\n\n* [One](one.md): first\n")
    (repository / "docs/one.md").write_text("# One\n")


def test_the_site_of_the_distribution_is_found(bare_installation: Path, scratch: Path) -> None:
    with pytest.raises(UserError, match="this dralab was built without its documentation"):
        server.find(scratch)
    site = _site(bare_installation / "dra_cli" / "site")
    assert server.find(scratch) == site


def test_pages_of_a_wheel_without_a_site_are_rendered(bare_installation: Path, scratch: Path) -> None:
    _docs(bare_installation)
    Pages(bare_installation, []).write_with_navigation(bare_installation / "dra_cli/pages")
    site = server.find(scratch)
    assert ">Our pages</h1>" in (site / "index.html").read_text()
    assert ">One</h1>" in (site / "one.html").read_text()


def test_a_checkout_without_mkdocs_renders_its_pages(
    bare_installation: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bare_installation / "tools" / "site").mkdir(parents=True)
    _docs(bare_installation)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert ">Our pages</h1>" in (server.find(scratch) / "index.html").read_text()
    assert not (bare_installation / "site").exists()


def test_a_checkout_with_mkdocs_builds_the_whole_site_once(
    bare_installation: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bare_installation / "tools" / "site").mkdir(parents=True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    built: list[Path] = []

    def build(command: list[str], *, cwd: Path, check: bool) -> subprocess.CompletedProcess[str]:
        assert command[1:] == ["-m", "tools.site"]
        built.append(_site(cwd / "site"))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", build)
    assert [server.find(scratch), server.find(scratch)] == built * 2


def test_a_site_that_cannot_be_built_is_an_error(
    bare_installation: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bare_installation / "tools" / "site").mkdir(parents=True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(subprocess, "run", lambda command, **more: subprocess.CompletedProcess(command, 1))
    with pytest.raises(UserError, match="cannot be built"):
        server.find(scratch)


def test_sigterm_ends_the_server(tmp_path: Path) -> None:
    """It runs in a separate process, because the first process of a container has no default signal handlers."""
    code = (
        "import argparse, os, signal\n"
        "from dra_cli.commands import docs\n"
        "from dra_cli.documentation import server\n"
        "server.Server.wait = lambda self: (os.kill(os.getpid(), signal.SIGTERM), signal.pause())\n"
        "server.find = lambda scratch: scratch\n"
        "docs.run(argparse.Namespace(port=0, listen='127.0.0.1', open=False))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)}, timeout=60, check=False
    )
    assert ended.returncode == 0
    assert not list(tmp_path.iterdir())


def test_pages_have_a_content_security_policy(bare_installation: Path) -> None:
    with server.serve(lambda: _site(bare_installation / "site"), 0) as serving:
        answer = httpx.get(serving.url)
        assert answer.text == "<h1>dralab</h1>"
        assert answer.headers["content-security-policy"].startswith("default-src 'self'")
        assert httpx.get(f"{serving.url}../pyproject.toml").status_code == 404
        assert httpx.get(f"{serving.url}gone").headers["content-security-policy"]


def test_a_port_in_use_is_an_error(bare_installation: Path) -> None:
    def build() -> Path:
        raise AssertionError("the site is built though nothing can show it")

    with server.serve(lambda: _site(bare_installation / "site"), 0) as serving:
        port = int(serving.url.rstrip("/").rpartition(":")[2])
        with (
            pytest.raises(UserError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"),
            server.serve(build, port),
        ):
            pass


def test_the_site_may_be_served_on_other_addresses(tmp_path: Path) -> None:
    with server.serve(lambda: _site(tmp_path / "site"), 0, "0.0.0.0") as serving:
        assert serving.url.startswith("http://0.0.0.0:")
        assert httpx.get(serving.url.replace("0.0.0.0", "127.0.0.1")).text == "<h1>dralab</h1>"
