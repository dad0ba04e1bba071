"""The wheel contains the documentation's site if it was built, and the Markdown pages otherwise."""

import json
import runpy
from pathlib import Path
from typing import Any

from tests.support.reference import REPOSITORY

_HOOKS = runpy.run_path(str(REPOSITORY / "tools/hatch_build.py"))


def _repository(folder: Path) -> Path:
    module = folder / "cli/dra_cli/documentation/pages.py"
    module.parent.mkdir(parents=True)
    module.write_text((REPOSITORY / "cli/dra_cli/documentation/pages.py").read_text())
    (folder / "docs").mkdir()
    (folder / "docs/README.md").write_text("# Pages\n")
    return folder


def _hook(root: Path) -> Any:
    return _HOOKS["Examples"](str(root), {}, None, None, str(root), "wheel")


def test_the_wheel_has_the_markdown_pages_if_no_site_was_built(tmp_path: Path) -> None:
    hook = _hook(_repository(tmp_path))
    data: dict[str, Any] = {"force_include": {}}
    hook.initialize("standard", data)
    (pages,) = (Path(path) for path, place in data["force_include"].items() if place == "dra_cli/pages")
    assert json.loads((pages / "navigation.json").read_text()) == [{"Home": "README.md"}]
    hook.finalize("standard", data, "")
    assert not pages.exists()


def test_the_wheel_has_the_site_if_it_was_built(tmp_path: Path) -> None:
    (_repository(tmp_path) / "site").mkdir()
    hook = _hook(tmp_path)
    data: dict[str, Any] = {"force_include": {}}
    hook.initialize("standard", data)
    hook.finalize("standard", data, "")
    assert data["force_include"] == {"examples": "dra_lab/examples", "site": "dra_cli/site"}
