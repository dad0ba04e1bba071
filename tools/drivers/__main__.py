"""``python -m tools.drivers [NAME …]``: build published DRA drivers, run the driver suite on each, and print a table.

Sources are read from ``--sources DIR``, which has a checkout of each repository in a folder of the repository's name,
or are cloned with git. Stubs replace hardware and the container runtime; some need root. The table is in
docs/driver-results.md.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
_NRI_SOCKET = Path("/var/run/nri/nri.sock")
# For drivers whose kubelet directory cannot be configured: mount an empty /var/lib for the suite and the driver.
_EMPTY_LIB = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /var/lib; exec "$@"', "sh")
# Shell commands that run before the driver starts. Their mounts are visible to the driver alone.
_MOUNTS = {
    "cdi": 'mkdir -p /var/run/cdi; mount --bind "$CDI_ROOT" /var/run/cdi',
    "accel": 'mkdir -p "$ROOT/dev"; for name in null zero random urandom; do cp -a /dev/$name "$ROOT/dev/"; done;'
    ' for number in 0 1 2 3; do test -e "$ROOT/dev/accel$number" || mknod "$ROOT/dev/accel$number" c 1 3; done;'
    ' mount --bind "$ROOT/dev" /dev',
}


@dataclass(frozen=True)
class Driver:
    """A published driver; drivers.toml describes the fields."""

    name: str
    repository: str
    commit: str
    package: str
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] | None = None
    role: str = ""
    crds: str = ""
    stubs: Sequence[str] = ()


def read_drivers() -> list[Driver]:
    """Return the drivers of drivers.toml."""
    document = tomllib.loads((_HERE / "drivers.toml").read_text())
    return [Driver(name, **fields) for name, fields in document.items()]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite on the chosen drivers. Return 1 if one could not be built or run."""
    parser = argparse.ArgumentParser(prog="tools.drivers", description=__doc__)
    parser.add_argument("names", nargs="*", help="drivers of drivers.toml (all)")
    parser.add_argument(
        "--sources", type=Path, help="the folder with checkouts; without it, repositories are cloned"
    )
    parser.add_argument("--work", type=Path, default=Path(".drivers"), help="folder for programs and results")
    parser.add_argument("--kubernetes-version", default="1.37")
    chosen = parser.parse_args(arguments)
    drivers = [one for one in read_drivers() if not chosen.names or one.name in chosen.names]
    work = chosen.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    failed = 0
    for driver in drivers:
        try:
            source = _checkout(driver, chosen.sources, work)
            program = _build(driver.package, source, work / "bin" / driver.name)
            result = _run(driver, source, program, work, chosen.kubernetes_version)
        except (subprocess.CalledProcessError, OSError) as error:
            print(f"{driver.name}: {error}", file=sys.stderr)
            failed = 1
            continue
        print(row(driver, result), flush=True)
    return failed


def row(driver: Driver, result: Mapping[str, Any]) -> str:
    """Return the driver's row in the table of the page."""
    counts = result["counts"]
    tried = sum(counts.get(one, 0) for one in ("kept", "broken", "warning", "untried"))
    found = {
        outcome: [check["id"] for check in result["checks"] if check["outcome"] == outcome]
        for outcome in ("broken", "warning", "not shown")
    }
    cells = [
        f"[{driver.name}]({driver.repository}) at {driver.commit}",
        ", ".join(driver.stubs) or "none",
        f"{counts.get('kept', 0)} of {tried}",
        *(", ".join(f"`{name}`" for name in names) or "nothing" for names in found.values()),
    ]
    return f"| {' | '.join(cells)} |"


def _checkout(driver: Driver, sources: Path | None, work: Path) -> Path:
    name = driver.repository.rpartition("/")[2]
    if sources is not None:
        return sources.absolute() / name
    folder = work / "sources" / name
    if not folder.exists():
        subprocess.run(["git", "clone", "--filter=blob:none", driver.repository, str(folder)], check=True)
    subprocess.run(["git", "-C", str(folder), "checkout", "--quiet", driver.commit], check=True)
    return folder


def _build(package: str, source: Path, program: Path) -> Path:
    words = ["go", "build", "-buildvcs=false", "-o", str(program), package]
    subprocess.run(words, cwd=source, check=True)
    return program


def _run(driver: Driver, source: Path, program: Path, work: Path, version: str) -> dict[str, Any]:
    report = work / f"{driver.name}.json"
    with contextlib.ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dralab-root-")))
        if "nvml" in driver.stubs:
            subprocess.run([sys.executable, "-m", "tools.nvml.root", "2xT4", str(root)], check=True)
        if "nri" in driver.stubs:
            stack.enter_context(_serve_nri(work))
        if "intel-gpu" in driver.stubs:
            _fake_intel_gpus(source, root, work)
        if "intel-qat" in driver.stubs:
            _fake_intel_qat(source, root, work)
        words = list(_EMPTY_LIB) if "kubelet" in driver.stubs else []
        words += [str(Path(sys.executable).parent / "dralab"), "conformance", "driver"]
        words += ["--report", str(report)]
        words += ["--directory", "/var/lib"] if "kubelet" in driver.stubs else []
        words += ["--kubernetes-version", version]
        if driver.config is not None:
            file = root / "config.yaml"
            file.write_text(json.dumps(driver.config))
            words += ["--config", str(file)]
        if driver.role:
            words += ["--role", str(source / driver.role)]
        if driver.crds:
            words += ["--crds", str(source / driver.crds)]
        mounts = [_MOUNTS[stub] for stub in driver.stubs if stub in _MOUNTS]
        script = "; ".join([*mounts, 'exec "$@"'])
        wrapper = ["unshare", "--mount", "sh", "-c", script, "sh"] if mounts else []
        command = [*wrapper, str(program), *(word.replace("$ROOT", str(root)) for word in driver.arguments)]
        given = {name: value.replace("$ROOT", str(root)) for name, value in driver.environment.items()}
        given["ROOT"] = str(root)
        log = work / f"{driver.name}.txt"
        with log.open("w") as output:
            # Ignore the exit code: it is 1 if a check fails, and the report has the failed checks.
            subprocess.run(
                [*words, "--", *command],
                env={**os.environ, **given},
                stdout=output,
                stderr=output,
                check=False,
            )
    found: dict[str, Any] = json.loads(report.read_text())
    return found


def _fake_intel_gpus(source: Path, root: Path, work: Path) -> None:
    """Create a fake sysfs and devfs of two GPUs, with the generator that the driver's own tests use."""
    faker = _build("./cmd/device-faker", source, work / "bin/device-faker")
    output = subprocess.run([str(faker), "gpu", "-n"], check=True, capture_output=True, text=True).stdout
    template = Path(output.rpartition("new template: ")[2].strip())
    try:
        words = [str(faker), "gpu", "-t", str(template), "-d", str(root), "-r"]
        subprocess.run(words, check=True, capture_output=True)
    finally:
        template.unlink()


def _fake_intel_qat(source: Path, root: Path, work: Path) -> None:
    """Create a fake sysfs of two QAT devices, with tools/drivers/qat/main.go, built within the driver's Go module."""
    folder = source / "cmd/dralab-qat"
    shutil.copytree(_HERE / "qat", folder, dirs_exist_ok=True)
    try:
        faker = _build(f"./{folder.relative_to(source)}", source, work / "bin/qat-faker")
    finally:
        shutil.rmtree(folder)
    subprocess.run([str(faker), str(root / "sysfs")], check=True)


@contextlib.contextmanager
def _serve_nri(work: Path) -> Iterator[None]:
    """Serve a container runtime's NRI socket without containers, unless the machine has a runtime."""
    if _NRI_SOCKET.exists():
        yield
        return
    _NRI_SOCKET.parent.mkdir(parents=True, exist_ok=True)
    program = _build(".", _HERE / "nri", work / "bin/nri")
    with subprocess.Popen([str(program), str(_NRI_SOCKET)], stderr=subprocess.DEVNULL) as server:
        try:
            yield
        finally:
            server.terminate()
            server.wait()
            with contextlib.suppress(OSError):
                _NRI_SOCKET.unlink(missing_ok=True)


if __name__ == "__main__":
    if shutil.which("go") is None:
        sys.exit("tools.drivers needs Go")
    sys.exit(main())
