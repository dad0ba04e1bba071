"""Read the deprecated versions of kinds from the lifecycle methods of their Go types."""

from __future__ import annotations

import contextlib
import re
from typing import Any

from tools.schemas.sources import Source, api_folder


def _lifecycle(text: str) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the deprecation, removal and replacement of each kind of a package."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    pattern = r"func \(in \*(\w+)\) APILifecycle(\w+)\(\) [^{\n]*\{\s*return ([^\n]*)"
    for kind, event, value in re.findall(pattern, text):
        numbers = re.findall(r'"([^"]*)"', value) or re.findall(r"\d+", value)
        found.setdefault(kind, {})[event] = tuple(numbers)
    return found


def deprecations(source: Source, document: dict[str, Any], minor: int) -> None:
    """Add to each kind the versions for which clients get a warning."""
    for entry in document["kinds"]:
        entry.pop("deprecated", None)
        for version in entry["versions"]:
            folder = api_folder(entry["group"])
            text = ""
            # The hand-written file comes last, because its entries replace the generated ones.
            for file in ("zz_generated.prerelease-lifecycle.go", "lifecycle.go"):
                with contextlib.suppress(FileNotFoundError):
                    text += source.read("api", f"{folder}/{version}/{file}")
            events = _lifecycle(text).get(entry["kind"], {})
            since = events.get("Deprecated")
            if since is None or int(since[1]) > minor:
                continue
            name = f"{entry['group']}/{version}".lstrip("/")
            warning = f"{name} {entry['kind']} is deprecated in v{since[0]}.{since[1]}+"
            if "Removed" in events:
                warning += f", unavailable in v{'.'.join(events['Removed'])}+"
            if "Replacement" in events:
                group, replacement, kind = events["Replacement"]
                warning += f"; use {f'{group}/{replacement}'.lstrip('/')} {kind}"
            entry.setdefault("deprecated", {})[version] = warning
