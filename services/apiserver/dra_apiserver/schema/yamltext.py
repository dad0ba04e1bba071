"""YAML documents as the JSON values that Kubernetes reads them as."""

import re
from typing import Any

import yaml

from dra_apiserver.schema.gotext import go_syntax
from dra_apiserver.schema.reader import RepeatedKeys

_NULL = "tag:yaml.org,2002:null"
_BOOL = "tag:yaml.org,2002:bool"
_INT = "tag:yaml.org,2002:int"
_FLOAT = "tag:yaml.org,2002:float"
_MERGE = "tag:yaml.org,2002:merge"
_TRUE = frozenset({"y", "yes", "on", "true"})
_BASES = {"0x": 16, "0o": 8, "0b": 2}


class YamlError(ValueError):
    """The text is no YAML document."""


_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_BASE):  # type: ignore[misc]  # PyYAML may lack its C part
    """Scalars resolve as Go's YAML library resolves them: no dates, no sexagesimal numbers."""


def _resolver(tag: str, pattern: str, first: str) -> None:
    _Loader.add_implicit_resolver(tag, re.compile(pattern), list(first))


_Loader.yaml_implicit_resolvers = {}
_WORDS = "y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF"
_resolver(_BOOL, rf"^(?:{_WORDS})$", "yYnNtTfFoO")
_resolver(_INT, r"^[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|[0-9][0-9_]*)$", "-+0123456789")
_resolver(_FLOAT, r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789")
_resolver(_NULL, r"^(?:~|null|Null|NULL|)$", "~nN")
_Loader.add_implicit_resolver(_NULL, re.compile(r"^$"), [""])
_resolver(_MERGE, r"^<<$", "<")


def _integer(loader: Any, node: yaml.ScalarNode) -> int:
    text = node.value.replace("_", "").lower()
    sign = -1 if text.startswith("-") else 1
    text = text.lstrip("+-")
    base = _BASES.get(text[:2])
    if base is not None:
        return sign * int(text[2:], base)
    return sign * (int(text, 8) if len(text) > 1 and text[0] == "0" else int(text))


def _boolean(loader: Any, node: yaml.ScalarNode) -> bool:
    return node.value.lower() in _TRUE


def _mapping(loader: Any, node: yaml.MappingNode) -> dict[str, Any]:
    merged = any(key.tag == _MERGE for key, _ in node.value)
    if merged:
        loader.flatten_mapping(node)
    pairs = [(_key(loader, key), loader.construct_object(value, deep=True)) for key, value in node.value]
    made = dict(pairs)
    return made if merged or len(made) == len(pairs) else RepeatedKeys(pairs)


def _key(loader: Any, node: yaml.Node) -> str:
    value = loader.construct_object(node, deep=True)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, dict | list):
        raise YamlError(f"line {node.start_mark.line + 1}: a key must be text")
    return str(value)


_Loader.add_constructor(_INT, _integer)
_Loader.add_constructor(_BOOL, _boolean)
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", yaml.SafeLoader.construct_yaml_str)
_Loader.add_constructor("tag:yaml.org,2002:binary", yaml.SafeLoader.construct_yaml_str)


def load_yaml(data: bytes) -> Any:
    """The JSON value of the first YAML document; mappings with repeated keys are ``RepeatedKeys``.

    Raises:
        YamlError: malformed, or no JSON value.
    """
    try:
        return next(yaml.load_all(data, Loader=_Loader), None)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "context_mark", None) or getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        # Go's library counts lines from zero, but for its scanner's errors, and leaves zero out.
        line = mark.line + isinstance(error, yaml.scanner.ScannerError) if mark and mark.line else 0
        raise YamlError(f"line {line}: {problem}" if line else problem) from error


def repeated_lines(data: bytes) -> list[str]:
    """What Go's library says of keys that a well-formed document has more than once in a mapping."""
    problems: list[str] = []
    node = next(iter(yaml.compose_all(data, Loader=_Loader)), None)
    if node is not None:
        _collect_repeated(node, problems)
    return problems


def _collect_repeated(node: yaml.Node, problems: list[str]) -> None:
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _collect_repeated(item, problems)
    elif isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            _collect_repeated(value, problems)
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    line = value.start_mark.line + 1
                    problems.append(f"line {line}: key {go_syntax(key.value)} already set in map")
                seen.add(key.value)
