"""Read the struct types of a Go package of API types: fields, JSON tags and comment markers.

Only the shape is read (names, types, tags, ``+markers``), never the prose.
"""

import re
from dataclasses import dataclass, field

_IMPORT = re.compile(r'^\s*(?:(\w+)\s+)?"([^"]+)"')
_FIELD = re.compile(r"^\s*(?:(\w+)\s+)?([\w.*\[\]]+)\s*(?:`([^`]*)`)?\s*(?://.*)?$")
_TYPE = re.compile(r"^type (\w+) (?:= )?([^{]+?)\s*(?:\{|$)")
_TAG = re.compile(r'(\w+):"([^"]*)"')
# Typed by name, or by conversion: ``A T = "a"`` and ``A = T("a")``.
_CONSTANT = re.compile(r'^\s*(?:const )?\w+(?:\s+|\s*=\s*)(\w+)(?:\s*=\s*|\()"([^"]*)"')
_RENAMED = re.compile(r"^\s*\w+\s*=\s*(\w+)\((\w+)\.(\w+)\)")
_NAMED = re.compile(r'^\s*(?:const )?(\w+)\s+\w+\s*=\s*"([^"]*)"')
_MARKER = re.compile(r"^\s*//\s*\+([\w:]+)(?:=(.*?))?\s*$")
_RULE = re.compile(r"^\s*//\s*\+k8s:(.+?)\s*(?:# .*)?$")
_STAGE = re.compile(r'^(alpha|beta)\(since: "([\d.]+)"\)$')
_QUOTED = re.compile(r'\("([^"]*)"\)')
# Tags with the same prefix that other generators read.
_NO_RULES = re.compile(r"^([\w-]+-gen|supportsSubresource|isSubresource)\b")


@dataclass
class GoField:
    """One JSON field of a struct; ``json`` is empty for an inlined struct."""

    json: str
    type: str
    omitempty: bool
    omitzero: bool
    tags: dict[str, str]
    markers: dict[str, list[str]]
    documented: bool = True
    rules: list[str] = field(default_factory=list)


@dataclass
class GoType:
    """A named type: a struct with fields, or a name for ``underlying``."""

    package: str
    name: str
    underlying: str = ""
    fields: list[GoField] = field(default_factory=list)
    markers: dict[str, list[str]] = field(default_factory=dict)
    rules: list[str] = field(default_factory=list)


@dataclass
class GoPackage:
    """The types of one package, and its imports by their local names."""

    path: str
    types: dict[str, GoType] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    constants: dict[str, list[str]] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    renamed: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def enumeration(self, name: str) -> list[str]:
        """Return the sorted values of a type that is marked as an enumeration. Empty for other types."""
        found = self.types.get(name)
        marked = found is not None and {"enum", "k8s:enum"} & found.markers.keys()
        return sorted(set(self.constants.get(name, ()))) if marked else []


def _markers(comments: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in comments:
        match = _MARKER.match(line)
        if match:
            found.setdefault(match.group(1), []).append(match.group(2) or "")
    return found


def _rules(comments: list[str]) -> list[str]:
    """Return the validation tags in their order: ``maxItems=32``, ``alpha(1.36): eachKey: format=k8s-short-name``."""
    found = []
    for line in comments:
        match = _RULE.match(line)
        if match and not _NO_RULES.match(match.group(1)):
            parts = [_STAGE.sub(r"\1(\2)", part) for part in match.group(1).split("=+k8s:")]
            found.append(": ".join(_QUOTED.sub(r"(\1)", part) for part in parts))
    return found


def _field(line: str, comments: list[str]) -> GoField | None:
    match = _FIELD.match(line)
    if match is None:
        return None
    tags = dict(_TAG.findall(match.group(3) or ""))
    name, *options = tags.get("json", "").split(",")
    if name == "-" or "json" not in tags:
        return None
    if "inline" in options or not match.group(1):
        name = name or ""
    return GoField(
        name,
        match.group(2),
        "omitempty" in options,
        "omitzero" in options,
        tags,
        _markers(comments),
        any(_MARKER.match(line) is None and line.strip(" /\t") for line in comments),
        _rules(comments),
    )


def parse(path: str, source: str) -> GoPackage:
    """Return the types of a Go source file."""
    package = GoPackage(path)
    comments: list[str] = []
    above: list[str] = []
    current: GoType | None = None
    imports = False
    for line in source.splitlines():
        if line.startswith("import ("):
            imports = True
            continue
        if imports or line.startswith("import "):
            match = _IMPORT.match(line.removeprefix("import"))
            if match:
                package.imports[match.group(1) or match.group(2).rsplit("/", 1)[-1]] = match.group(2)
            imports = imports and not line.startswith(")")
            continue
        stripped = line.strip()
        if stripped.startswith("//"):
            comments.append(line)
            continue
        constant = _CONSTANT.match(line) if current is None else None
        if constant:
            package.constants.setdefault(constant.group(1), []).append(constant.group(2))
            named = _NAMED.match(line)
            if named:
                package.named[named.group(1)] = named.group(2)
        other = _RENAMED.match(line) if current is None else None
        if other:
            package.renamed.setdefault(other.group(1), []).append((other.group(2), other.group(3)))
        if current is not None:
            if line.startswith("}"):
                current = None
            elif stripped:
                found = _field(line, comments)
                if found is not None:
                    current.fields.append(found)
        else:
            match = _TYPE.match(line)
            if match:
                block = above + comments
                made = GoType(path, match.group(1), markers=_markers(block), rules=_rules(block))
                if match.group(2).strip() == "struct":
                    current = None if line.rstrip().endswith("{}") else made
                else:
                    made.underlying = match.group(2).strip()
                package.types[made.name] = made
        # Markers of a type may stand in a comment block of their own above its documentation.
        above = comments if not stripped and current is None else []
        comments = []
    return package
