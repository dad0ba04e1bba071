"""The pinned Go modules that the schemas are made from, and the packages in them."""

from __future__ import annotations

import json
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tools.schemas.gotypes import GoPackage, parse

_PINS = Path(__file__).with_name("sources.toml")
META = "k8s.io/apimachinery/pkg/apis/meta/v1"
# Go package -> (module, folder in it, files). k8s.io/api packages are found by their name.
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
    """Return the folder of k8s.io/api that has a group's types."""
    return _API_FOLDERS.get(group, group.split(".")[0])


def package_path(group: str, version: str) -> str:
    """Return the Go import path of a group and version's types."""
    return f"{_OWN_PACKAGES.get(group, f'k8s.io/api/{api_folder(group)}')}/{version}"


@dataclass(frozen=True)
class Release:
    """A Kubernetes release, such as ``1.37.0``, and the checksums of the modules with its types, as in a go.sum."""

    version: str
    sums: dict[str, str]

    @classmethod
    def read(cls) -> Release:
        """Read the release that sources.toml names."""
        document = tomllib.loads(_PINS.read_text())
        return cls(document["version"], document["modules"])

    @property
    def minor(self) -> int:
        """Return the minor version: 37 for 1.37.0."""
        return int(self.version.split(".")[1])


def download(name: str, release: Release) -> Path:
    """Return the folder of a module of k8s.io in Go's module cache, to which it is downloaded if needed.

    Raises:
        SystemExit: the checksum of the module is not the pinned one.
        subprocess.CalledProcessError: it cannot be downloaded.
    """
    module = f"k8s.io/{name}@v0.{release.version.removeprefix('1.')}"
    command = ["go", "mod", "download", "-json", module]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    if found["Sum"] != release.sums[name]:
        raise SystemExit(f"{module}: the sum is {found['Sum']}, and sources.toml pins {release.sums[name]}")
    return Path(found["Dir"])


class Source:
    """The Go packages of a release's modules, parsed when first needed."""

    def __init__(self, folders: dict[str, Path]) -> None:
        self._folders = folders
        self._packages: dict[str, GoPackage] = {}

    def read(self, module: str, path: str) -> str:
        """Return the text of a file.

        Raises:
            FileNotFoundError: there is no such file.
        """
        return (self._folders[module] / path).read_text()

    def package(self, path: str) -> GoPackage:
        """Return the package with this import path."""
        if path not in self._packages:
            self._packages[path] = self._parse(path)
        return self._packages[path]

    def _parse(self, path: str) -> GoPackage:
        own = ("api", path.removeprefix("k8s.io/api/"), ["types.go"])
        module, folder, files = OTHER_PACKAGES.get(path, own)
        merged = GoPackage(path)
        for name in files:
            one = parse(path, self.read(module, f"{folder}/{name}"))
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
