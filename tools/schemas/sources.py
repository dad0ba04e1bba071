"""The pinned Go repositories that the schemas are made from, and the packages in them."""

from __future__ import annotations

import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tools.schemas.gotypes import GoPackage, parse

_PINS = Path(__file__).with_name("sources.toml")
META = "k8s.io/apimachinery/pkg/apis/meta/v1"
# Go package -> (repository, folder in it, files). k8s.io/api packages are found by their name.
OTHER_PACKAGES = {
    META: ("apimachinery", "pkg/apis/meta/v1", ["types.go", "group_version.go", "watch.go"]),
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1": (
        "apiextensions-apiserver",
        "pkg/apis/apiextensions/v1",
        ["types.go", "types_jsonschema.go"],
    ),
    "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1": (
        "kube-aggregator",
        "pkg/apis/apiregistration/v1",
        ["types.go"],
    ),
}
_API_FOLDERS = {
    "": "core",
    "internal.apiserver.k8s.io": "apiserverinternal",
    "rbac.authorization.k8s.io": "rbac",
    "flowcontrol.apiserver.k8s.io": "flowcontrol",
}
_OWN_PACKAGES = {
    "apiextensions.k8s.io": "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions",
    "apiregistration.k8s.io": "k8s.io/kube-aggregator/pkg/apis/apiregistration",
}


def api_folder(group: str) -> str:
    """The folder of k8s.io/api that has a group's types."""
    return _API_FOLDERS.get(group, group.split(".")[0])


def package_path(group: str, version: str) -> str:
    """The Go import path of a group and version's types."""
    return f"{_OWN_PACKAGES.get(group, f'k8s.io/api/{api_folder(group)}')}/{version}"


@dataclass(frozen=True)
class Pin:
    """One repository at one commit."""

    name: str
    url: str
    tag: str
    commit: str


@dataclass(frozen=True)
class Release:
    """A Kubernetes release, such as ``1.36.2``, and the repositories that have its types."""

    version: str
    pins: dict[str, Pin]

    @classmethod
    def read(cls) -> Release:
        """The release that sources.toml names."""
        document = tomllib.loads(_PINS.read_text())
        pins = {name: Pin(name, **values) for name, values in document["repositories"].items()}
        return cls(document["version"], pins)

    @property
    def minor(self) -> int:
        """36 of 1.36.2."""
        return int(self.version.split(".")[1])


def clone(pin: Pin, folder: Path) -> None:
    """Bring a repository at its tag into ``folder``, where it is not there yet.

    Raises:
        SystemExit: the tag is another commit by now.
    """
    target = folder / pin.name
    if not target.exists():
        command = [
            "git",
            "clone",
            "--quiet",
            "--bare",
            "--depth",
            "1",
            "--branch",
            pin.tag,
            pin.url,
            str(target),
        ]
        subprocess.run(command, check=True)
    found = _git(target, "rev-parse", f"{pin.tag}^{{commit}}").strip()
    if found != pin.commit:
        raise SystemExit(f"{pin.name}: {pin.tag} is {found}, and sources.toml pins {pin.commit}")


def _git(repository: Path, *arguments: str) -> str:
    command = ["git", "--git-dir", str(repository), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Source:
    """The Go packages of a release below a folder of bare repositories, parsed when first needed."""

    def __init__(self, folder: Path, release: Release) -> None:
        self._folder = folder
        self._release = release
        self._packages: dict[str, GoPackage] = {}

    def read(self, repository: str, path: str) -> str:
        """The text of a file.

        Raises:
            subprocess.CalledProcessError: there is no such file.
        """
        return _git(self._folder / repository, "show", f"{self._release.pins[repository].commit}:{path}")

    def package(self, path: str) -> GoPackage:
        """The package with this import path."""
        if path not in self._packages:
            self._packages[path] = self._parse(path)
        return self._packages[path]

    def _parse(self, path: str) -> GoPackage:
        own = ("api", path.removeprefix("k8s.io/api/"), ["types.go"])
        repository, folder, files = OTHER_PACKAGES.get(path, own)
        merged = GoPackage(path)
        for name in files:
            one = parse(path, self.read(repository, f"{folder}/{name}"))
            merged.types |= one.types
            merged.imports |= one.imports
            merged.named |= one.named
            for type_name, values in one.constants.items():
                merged.constants.setdefault(type_name, []).extend(values)
            for type_name, others in one.renamed.items():
                for alias, constant in others:
                    if (imported := one.imports.get(alias, "")).startswith("k8s.io/api/"):
                        value = self.package(imported).named[constant]
                        merged.constants.setdefault(type_name, []).append(value)
        return merged
