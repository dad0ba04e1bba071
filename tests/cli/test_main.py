"""Errors and help of the command line."""

import sys

import pytest
from dra_cli.main import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("nosuch", "dralab: unknown command 'nosuch'; see dralab --help\n"),
        ("lern", "dralab: unknown command 'lern': did you mean learn? see dralab --help\n"),
        ("explian pod/x", "dralab: unknown command 'explian': did you mean explain? see dralab --help\n"),
        ("tpo nodes", "dralab: unknown command 'tpo': did you mean top? see dralab --help\n"),
        ("drain node-0", "dralab: unknown command 'drain': did you mean dralab node drain?\n"),
        (
            "scale x",
            "dralab: unknown command 'scale': use kubectl scale, after export KUBECONFIG=$(dralab kubeconfig)\n",
        ),
        (
            "get pods --namespce=x",
            "dralab: unrecognized arguments: --namespce=x: did you mean --namespace? see dralab get --help\n",
        ),
        ("learn chek", "dralab: there is no lesson 'chek': did you mean check? see dralab learn --list\n"),
        ("conformance drver", "dralab: unknown subject 'drver': did you mean driver? choose alloc, "),
        ("get pods --bogus", "dralab: unrecognized arguments: --bogus; see dralab get --help\n"),
        ("create", "dralab: say what to create: --filename FILE; see dralab create --help\n"),
        ("apply", "dralab: say what to apply: --filename FILE or --kustomize DIR; see dralab apply --help\n"),
        ("bench", "dralab: the following arguments are required: name, arguments; see dralab bench --help\n"),
        (
            "up --nodes 10001",
            "dralab: argument --nodes: 10001 is not between 0 and 10000; see dralab up --help\n",
        ),
        ("get pods --data x --server y", "dralab: --data and --server name two clusters: choose one\n"),
        ("bench nothing", "dralab: unknown benchmark 'nothing': choose allocator, "),
        ("conformance nothing x", "dralab: unknown subject 'nothing'; choose alloc, "),
        ("delete", "dralab: say what to delete: either KIND NAME… or --filename\n"),
        ("get pods -o table", "dralab: unknown output 'table': choose wide, yaml, json, name, jsonpath=…, "),
        ("explain node/x", "dralab: cannot explain 'node/x': choose pod/NAME, claim/NAME or class/NAME\n"),
        ("certificates --authority x --host=", "dralab: argument --host: expected a name or an address; "),
        ("console --port 99999", "dralab: argument --port: 99999 is not between 0 and 65535; "),
        ("conformance nothing", "dralab: unknown subject 'nothing'; choose alloc, "),
        ("up --images none.yaml", "dralab: cannot read none.yaml: No such file or directory\n"),
        ("up --scheduler-config /", "dralab: cannot read /: it is a folder\n"),
        (
            "up --listen 192.0.2.1",
            "dralab: argument --listen: '192.0.2.1' is not an address of this machine: ",
        ),
        ("free -o table", "dralab: unknown output 'table': choose json or yaml, or leave it out\n"),
        ("status -o table", "dralab: unknown output 'table': choose json or yaml, or leave it out\n"),
        ("devices -o table", "dralab: unknown output 'table': choose json or yaml, or leave it out\n"),
        ("history pod/x -o table", "dralab: unknown output 'table': choose json or yaml, or leave it out\n"),
        ("cel true -o table", "dralab: unknown output 'table': choose json or yaml, or leave it out\n"),
        ("learn -o table", "dralab: unknown output 'table': choose json or yaml, or leave it out\n"),
    ],
)
def test_invalid_arguments_are_reported_in_one_line(
    arguments: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["dralab", *arguments.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(message)
    assert error.count("\n") == 1


@pytest.mark.parametrize("arguments", ["-h", "up -h", "bench -h"])
def test_help_has_a_short_option(
    arguments: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["dralab", *arguments.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert "usage: dralab" in capsys.readouterr().out


def test_a_benchmark_prints_its_own_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["dralab", "bench", "allocator", "--help"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert "usage: bench allocator" in capsys.readouterr().out


@pytest.mark.parametrize("module", ["dra_cli.commandline", "dra_cli.commands.status"])
def test_ctrl_c_while_modules_are_loaded_prints_no_traceback(
    monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    class Interrupted:
        def find_spec(self, name: str, *_: object) -> None:
            if name == module:
                raise KeyboardInterrupt

    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    monkeypatch.setattr(sys, "argv", ["dralab", "status"])
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
