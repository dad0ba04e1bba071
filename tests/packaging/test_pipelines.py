"""Starting a cluster in pipelines: the combined image, the GitHub action and the GitLab template."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from dra_cli import commandline

from tests.support.reference import REPOSITORY

_DOCKERFILE = (REPOSITORY / "Dockerfile").read_text()
_EXPRESSION = re.compile(r"\$\[\[ inputs\.([\w-]+) \]\]")


def _instructions(name: str) -> list[str]:
    text = _DOCKERFILE.replace("\\\n", " ")
    return [line.partition(" ")[2] for line in text.splitlines() if line.startswith(f"{name} ")]


def _reads(command: str) -> None:
    """Parse the words as the command does: a quoted variable is one word, and any other one may be absent."""
    command = re.sub(r'"\$\w+"', "1", command)
    program, name, *words = shlex.split(re.sub(r'"\$\{\w+\[@\]\}"|\$\w+', "", command))
    assert program == "dralab"
    commandline.parser(name).read(words)


def test_files_that_the_image_copies_exist_and_are_not_ignored() -> None:
    ignored = (REPOSITORY / ".dockerignore").read_text().splitlines()
    own = [line for line in _instructions("COPY") if not line.startswith("--from=")]
    for source in [word for line in own for word in line.split()[:-1] if word != "."]:
        assert (REPOSITORY / source).exists()
        assert f"!{source.partition('/')[0]}" in ignored


def test_the_image_starts_a_cluster_that_is_reachable_from_outside() -> None:
    entry, command = (yaml.safe_load(_instructions(name)[0]) for name in ("ENTRYPOINT", "CMD"))
    chosen = commandline.parser(command[0]).read(command[1:])
    assert (entry, command[0], chosen.listen, chosen.port) == (["dralab"], "up", "0.0.0.0", 8080)
    assert _instructions("EXPOSE") == ["8080"]
    assert int(_instructions("USER")[0].split(":")[0]) > 0


def test_the_lock_file_of_the_image_has_the_build_requirements() -> None:
    assert re.search(r"^hatchling==", (REPOSITORY / "requirements.lock").read_text(), re.MULTILINE)


_ACTIONS = ("action.yml", "conformance/action.yml")


def _read_action(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((REPOSITORY / name).read_text())
    return loaded


@pytest.fixture(scope="module")
def action() -> dict[str, Any]:
    return _read_action("action.yml")


@pytest.mark.parametrize("name", _ACTIONS)
def test_an_action_uses_each_of_its_inputs(name: str) -> None:
    action = _read_action(name)
    used = set(re.findall(r"inputs\.([\w-]+)", (REPOSITORY / name).read_text()))
    assert used == set(action["inputs"])
    assert all("description" in given for given in action["inputs"].values())
    assert all("default" in given or given["required"] for given in action["inputs"].values())
    ids = {step.get("id") for step in action["runs"]["steps"]}
    outputs = action.get("outputs", {})
    assert {re.findall(r"steps\.(\w+)", output["value"])[0] for output in outputs.values()} <= ids


@pytest.mark.parametrize("name", _ACTIONS)
def test_scripts_of_an_action_contain_no_expressions(name: str) -> None:
    """An expression is replaced before the shell reads the script, so a value could be a command."""
    action = _read_action(name)
    assert not [step["run"] for step in action["runs"]["steps"] if "${{" in step.get("run", "")]


def test_commands_of_the_action_are_valid(action: dict[str, Any]) -> None:
    lines = [line for step in action["runs"]["steps"] for line in step.get("run", "").splitlines()]
    commands = [line for line in lines if line.startswith("dralab ")]
    assert commands
    for command in commands:
        _reads(command)


def test_the_template_is_a_valid_gitlab_component() -> None:
    spec, jobs = yaml.safe_load_all((REPOSITORY / "templates" / "gitlab-ci.yml").read_text())
    inputs = spec["spec"]["inputs"]
    assert set(_EXPRESSION.findall(str(jobs))) == set(inputs)
    (job,) = jobs.values()
    filled = [_EXPRESSION.sub(lambda m: str(inputs[m[1]]["default"]), line) for line in job["before_script"]]
    for line in filled:
        if line.startswith("dralab "):
            _reads(line)
    assert Path(job["variables"]["KUBECONFIG"]).parent == Path(job["variables"]["DRALAB_DATA"])


def test_the_workflow_publishes_what_make_docs_builds() -> None:
    loaded = yaml.safe_load((REPOSITORY / ".github/workflows/docs.yml").read_text())
    (job,) = loaded["jobs"].values()
    commands = [step["run"] for step in job["steps"] if "run" in step]
    with_values = {
        step["uses"].partition("@")[0]: step.get("with", {}) for step in job["steps"] if "uses" in step
    }
    assert commands == ['make docs URL="$URL"']
    shown = subprocess.run(
        ["make", "-n", "docs", "URL=https://pages.example/"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "-m tools.site --url https://pages.example/" in shown
    assert (
        f"/{with_values['actions/upload-pages-artifact']['path']}/"
        in (REPOSITORY / ".gitignore").read_text().splitlines()
    )
    assert "actions/deploy-pages" in with_values


def _run_script(script: str, tmp_path: Path, **environment: str) -> None:
    """Run a step's script with a python whose `-m venv` writes a folder of empty programs."""
    fake = tmp_path / "fake"
    fake.mkdir()
    programs = "python pip dralab dralab-driver kubectl-dra"
    (fake / "python3").write_text(
        f'#!/bin/sh\nmkdir -p "$3/bin"\nfor name in {programs}; do printf "#!/bin/sh\\n" > "$3/bin/$name"; '
        'chmod +x "$3/bin/$name"; done\n'
    )
    (fake / "python3").chmod(0o755)
    path = f"{fake}:{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        env={"PATH": path, "RUNNER_TEMP": str(tmp_path), **environment},
        check=True,
    )


def test_the_action_puts_only_programs_of_dralab_on_the_path(action: dict[str, Any], tmp_path: Path) -> None:
    setup, install = action["runs"]["steps"][:2]
    assert setup["with"]["update-environment"] is False
    added = tmp_path / "path"
    _run_script(install["run"], tmp_path, GITHUB_PATH=str(added), PYTHON="python3", ACTION=".")
    folder = Path(added.read_text().strip())
    assert sorted(path.name for path in folder.iterdir()) == ["dralab", "dralab-driver"]


def test_the_template_puts_only_programs_of_dralab_on_the_path(tmp_path: Path) -> None:
    _, jobs = yaml.safe_load_all((REPOSITORY / "templates" / "gitlab-ci.yml").read_text())
    (job,) = jobs.values()
    lines = [_EXPRESSION.sub("dralab", line) for line in job["before_script"] if "dralab up" not in line]
    _run_script("\n".join(lines).replace("/tmp/dralab", str(tmp_path / "lab")), tmp_path)
    assert sorted(path.name for path in (tmp_path / "lab/bin").iterdir()) == ["dralab", "dralab-driver"]


def test_the_template_installs_git_if_pip_needs_it(tmp_path: Path) -> None:
    """python:3.12-slim has none."""
    _, jobs = yaml.safe_load_all((REPOSITORY / "templates" / "gitlab-ci.yml").read_text())
    (job,) = jobs.values()
    (line,) = (line for line in job["before_script"] if "apt-get" in line)
    bash = shutil.which("bash")
    assert bash is not None
    (tmp_path / "apt-get").write_text(f'#!{bash}\necho "$@" >> {tmp_path}/calls\n')
    (tmp_path / "apt-get").chmod(0o755)
    for package in ("dralab", "git+https://example.com/dralab"):
        script = _EXPRESSION.sub(package, line)
        subprocess.run([bash, "-ec", script], env={"PATH": str(tmp_path)}, check=True)
    assert (tmp_path / "calls").read_text() == "-qq update\n-qq install --yes git\n"


def test_the_conformance_action_runs_the_suite_and_shows_its_results(tmp_path: Path) -> None:
    """A driver that breaks a promise fails the job, and the report and the summary are there."""
    script = _read_action("conformance/action.yml")["runs"]["steps"][-1]["run"]
    bin_ = tmp_path / "dralab/venv/bin"
    bin_.mkdir(parents=True)
    (bin_ / "dralab").write_text(
        '#!/bin/bash\nprintf "%s\\n" "$@" > words\necho "# 1 of 2" > "$RUNNER_TEMP/dralab/summary.md"\nexit 1\n'
    )
    (bin_ / "dralab").chmod(0o755)
    environment = {
        "PATH": os.environ["PATH"],
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "shown.md"),
        "COMMAND": "./my-driver --pod-uid {pod_uid}",
        "CONFIG": "my config.yaml",
        "ROLE": "",
        "VERSION": "1.36",
        "ARGUMENTS": "--strict",
        "REPORT": "conformance.xml",
    }
    ended = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, env=environment, check=False
    )
    assert ended.returncode == 1
    assert (tmp_path / "shown.md").read_text() == "# 1 of 2\n"
    program, *words = (tmp_path / "words").read_text().splitlines()
    options, command = words[: words.index("--")], words[words.index("--") + 1 :]
    chosen = commandline.parser(program).read(options)
    assert [str(file) for file in chosen.report] == [
        "conformance.xml",
        str(tmp_path / "dralab/summary.md"),
    ]
    assert (str(chosen.config), chosen.role, chosen.strict) == ("my config.yaml", None, True)
    assert (chosen.kubernetes_version, command) == ("1.36", ["./my-driver", "--pod-uid", "{pod_uid}"])


def test_the_conformance_template_is_a_valid_gitlab_component() -> None:
    spec, jobs = yaml.safe_load_all((REPOSITORY / "templates/driver-conformance.yml").read_text())
    inputs = spec["spec"]["inputs"]
    assert set(_EXPRESSION.findall(str(jobs))) == set(inputs)
    (job,) = jobs.values()
    filled = [
        _EXPRESSION.sub(lambda m: str(inputs[m[1]].get("default", "x")), line) for line in job["script"]
    ]
    (command,) = (line for line in filled if line.startswith("dralab "))
    _reads(command.partition(" -- ")[0])
    assert job["artifacts"]["reports"]["junit"] in command
