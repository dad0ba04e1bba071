"""Hatchling hooks that add the parts' requirements, the examples and the documentation to the distribution.

They also run on a Python that is too old for dralab, because pip builds the metadata before it compares versions.
"""

from __future__ import annotations

import runpy
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


class Gather(MetadataHookInterface):
    """Set the distribution's dependencies to the union of those of the parts that pyproject.toml names.

    ``command`` and ``extras`` in pyproject.toml are added to the dependencies and to the optional dependencies.
    """

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the dependencies.

        If Python is too old, there are none, because pip would search for them before it reports the wrong version.
        """
        metadata["dependencies"] = []
        metadata["optional-dependencies"] = {}
        if sys.version_info < (3, 11):  # noqa: UP036  # pip builds with the old Python
            return
        import tomllib

        needs: set[str] = set(self.config["command"])
        extras: dict[str, set[str]] = {
            name: set(optional) for name, optional in self.config.get("extras", {}).items()
        }
        for part in self.config["parts"]:
            project = tomllib.loads((Path(self.root) / part / "pyproject.toml").read_text())["project"]
            needs.update(need for need in project["dependencies"] if not need.startswith("dra-"))
            for name, optional in project.get("optional-dependencies", {}).items():
                extras.setdefault(name, set()).update(optional)
        metadata["dependencies"] = sorted(needs)
        metadata["optional-dependencies"] = {name: sorted(optional) for name, optional in extras.items()}


class Examples(BuildHookInterface[Any]):
    """Add the examples and the documentation to the wheel.

    The documentation is the HTML site if ``make docs`` has built it, or else the Markdown pages.

    An editable installation uses the files of the checkout instead.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "standard":
            return
        build_data["force_include"]["examples"] = "dra_lab/examples"
        root = Path(self.root)
        if (root / "site").is_dir():
            build_data["force_include"]["site"] = "dra_cli/site"
        else:
            self._folder = tempfile.TemporaryDirectory()
            module = runpy.run_path(str(root / "cli/dra_cli/documentation/pages.py"))
            module["Pages"](root, []).write_with_navigation(Path(self._folder.name))
            build_data["force_include"][self._folder.name] = "dra_cli/pages"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_folder"):
            self._folder.cleanup()
