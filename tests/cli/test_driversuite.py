"""``dralab conformance driver``: tests that need no driver."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from dra_cli import commandline
from dra_cli.driversuite import _directory, _parameters, _rules, until_terminated
from dra_shared.errors import UserError

from tests.support.cases import each_case
from tests.support.reference import REPOSITORY


def _run(*words: str) -> int:
    return commandline.run("conformance", ["driver", *words])


def test_the_list_option_prints_the_checks_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("--list", "-k", "admin") == 0
    assert [row.split()[0] for row in capsys.readouterr().out.splitlines()] == [
        "admin.prepared",
        "admin.holder-kept",
        "admin.no-holder",
        "admin.own-names",
    ]


def test_the_explain_option_describes_a_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("--explain", "cdi.atomic") == 0
    assert capsys.readouterr().out.startswith("cdi.atomic: CDI files are written atomically\nPromise: ")


@each_case(
    ("words", "message"),
    [
        ((), "give the driver's command after --, or --attach"),
        (("--explain", "cdi"), "unknown check 'cdi'"),
        (("-k", "nothing"), "no check has 'nothing'"),
        (("./driver",), "the driver's command follows --"),
        (("--attach", "--", "./driver"), "leave out the command"),
        (("--attach",), "--attach needs --directory"),
        (("--kubernetes-version", "1.2", "--", "x"), "1.2"),
        (("--crds", str(REPOSITORY / "examples/quickstart"), "--", "x"), "has no CustomResourceDefinition"),
        (("--report", "out.txt", "--", "x"), "out.txt: its name must end with .xml, .json, .md"),
        (("--", "driver", "{wrong}"), "unknown placeholder"),
        (("--list", "--output", "json"), "leave out --output"),
        (("--metrics-url", "localhost:9090", "--", "x"), "localhost:9090 is not an address"),
        (("--directory", "/tmp/" + 60 * "x", "--", "x"), "is too long for sockets: 65 bytes, and 57 are"),
    ],
)
def test_invalid_arguments_of_the_driver_suite_are_reported_in_one_line(
    words: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UserError, match=message) as error:
        _run(*words)
    assert error.value.code == 2


def test_the_folder_of_an_earlier_run_is_rejected(tmp_path: Path) -> None:
    """Once, the error was that the node already exists."""
    (tmp_path / "apiserver").mkdir()
    with pytest.raises(UserError, match="has an earlier run: delete it, or give another folder"):
        _directory(tmp_path)
    assert _directory(None) is None


def test_the_role_of_a_driver_is_read_from_manifests(tmp_path: Path) -> None:
    rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}}
    file = tmp_path / "role.json"
    file.write_text(json.dumps({**role, "rules": [rule]}))
    assert _rules(file) == [rule]
    file.write_text(json.dumps(role))
    with pytest.raises(UserError, match="has no ClusterRole with rules"):
        _rules(file)


def test_opaque_parameters_must_be_a_json_object(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("apiVersion: x/v1\nkind: Paint\n")
    assert _parameters(file) == {"apiVersion": "x/v1", "kind": "Paint"}
    file.write_text("- x\n")
    with pytest.raises(UserError, match="is not an object"):
        _parameters(file)


async def test_sigterm_stops_the_driver_suite_with_its_cleanup_code() -> None:
    done = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            done.append("stopped the driver")

    try:
        with pytest.raises(asyncio.CancelledError):
            await until_terminated(work())
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
    assert done == ["stopped the driver"]


@pytest.mark.system
def test_report_files_are_written_in_addition_to_the_printed_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / name for name in ("r.xml", "r.json", "r.md")]
    words = [word for file in files for word in ("--report", str(file))]
    assert _run("-k", "registration.appears", *words, "--", "false") == 1
    assert "BROKEN    registration.appears" in capsys.readouterr().out
    assert files[0].read_text().startswith("<?xml")
    assert json.loads(files[1].read_text())["counts"] == {"broken": 1}
    assert files[2].read_text().startswith("# DRA driver conformance: 0 of 1")
