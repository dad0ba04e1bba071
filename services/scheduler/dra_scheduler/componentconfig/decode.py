"""Decode the file's text into the configuration and its plugins' arguments (``pkg/scheduler/apis/config/scheme``).

Upstream decodes strictly: an unknown field or a duplicate key is an error, just like a wrong type.
"""

import json
from dataclasses import dataclass
from typing import Any

from dra_shared import yamltext
from dra_shared.repeatedkeys import RepeatedKeys

from dra_scheduler.componentconfig import gojson
from dra_scheduler.componentconfig.gojson import DecodeError
from dra_scheduler.componentconfig.types import (
    API_VERSION,
    ARGS,
    GROUP,
    KIND,
    VERSION,
    KubeSchedulerConfiguration,
    PluginConfig,
    TypeMeta,
    Unknown,
)

_SCHEME = "kubernetes/pkg/scheduler/apis/config/scheme/scheme.go:29"
_META = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


class _StrictError(DecodeError):
    """All problems that only strict decoding reports, in one text."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(f"strict decoding error: {', '.join(problems)}")


@dataclass(frozen=True)
class _Type:
    """A group, version and kind."""

    group: str
    version: str
    kind: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}, Kind={self.kind}"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


def decode(text: str) -> KubeSchedulerConfiguration:
    """Decode the text into a configuration without defaults.

    Raises:
        DecodeError: the text is not a configuration of a supported version.
    """
    value, strict = _parse(text)
    found = _type_of(value, None)
    if not found.kind:
        raise DecodeError(f"Object 'Kind' is missing in '{text}'")
    if not found.version:
        raise DecodeError(f"Object 'apiVersion' is missing in '{text}'")
    cls = _find_registered_type(found)
    decoded, problems = gojson.decode(cls, value)
    strict += problems
    if isinstance(decoded, KubeSchedulerConfiguration):
        strict += _decode_args(decoded)
    if strict:
        raise _StrictError(strict)
    if not isinstance(decoded, KubeSchedulerConfiguration):
        raise DecodeError(f"couldn't decode as {KIND}, got {found}: ")
    return decoded


def _parse(text: str) -> tuple[Any, list[str]]:
    """Parse the text.

    Return the value, and the duplicate keys if it is YAML. In JSON, each decoded object has its duplicate keys.
    """
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text, object_pairs_hook=_pairs), []
        except ValueError:
            pass  # It may be YAML in flow style.
    try:
        document = yamltext.load(text)
    except yamltext.YamlError as problem:
        raise DecodeError(f"yaml: {problem}") from None
    lines = [f'  line {again.line}: key "{again.key}" already set in map' for again in document.repeated]
    strict = ["\n".join(("yaml: unmarshal errors:", *lines))] if lines else []
    return _as_json(document.value), strict


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    return made if len(made) == len(pairs) else RepeatedKeys(pairs)


def _as_json(value: Any) -> Any:
    """Convert a YAML value as Go writes it in JSON: with sorted keys, and whole numbers without a fraction."""
    if isinstance(value, dict):
        return {key: _as_json(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    return value


def _type_of(value: Any, default: _Type | None) -> _Type:
    if value is None:
        value = {}
    if not isinstance(value, dict):
        what = {str: "string", bool: "bool", list: "array"}.get(type(value), "number")
        problem = f"json: cannot unmarshal {what} into Go value of type {_META}"
        raise DecodeError(f"couldn't get version/kind; json parse error: {problem}")
    api_version, kind = value.get("apiVersion") or "", value.get("kind") or ""
    for name, content in (("APIVersion", api_version), ("Kind", kind)):
        if not isinstance(content, str):
            key = name[0].lower() + name[1:]
            problem = (
                f"json: cannot unmarshal {type(content).__name__} into Go struct field .{key} of type string"
            )
            raise DecodeError(f"couldn't get version/kind; json parse error: {problem}")
    group, slash, version = api_version.rpartition("/")
    if "/" in group:
        raise DecodeError(f"unexpected GroupVersion string: {api_version}")
    if default is not None:
        kind = kind or default.kind
        if not api_version:
            group, version = default.group, default.version
    return _Type(group if slash else "", version, kind) if api_version else _Type(group, version, kind)


def _find_registered_type(found: _Type) -> type[TypeMeta]:
    cls = KubeSchedulerConfiguration if found.kind == KIND else ARGS.get(found.kind)
    if cls is None or (found.group, found.version) != (GROUP, VERSION):
        raise DecodeError(
            f'no kind "{found.kind}" is registered for version "{found.api_version}" in scheme "{_SCHEME}"'
        )
    return cls


def _decode_args(config: KubeSchedulerConfiguration) -> list[str]:
    """Decode the arguments of every plugin in ``pluginConfig``.

    Return the problems that only strict decoding reports.
    """
    strict = []
    for i, profile in enumerate(config.profiles or ()):
        for j, plugin in enumerate(profile.plugin_config or ()):
            try:
                plugin.args = _args(plugin)
            except _StrictError as problem:
                strict.append(f"decoding .profiles[{i}].pluginConfig[{j}]: {problem}")
            except DecodeError as problem:
                raise DecodeError(f"decoding .profiles[{i}].pluginConfig[{j}]: {problem}") from None
    return strict


def _args(plugin: PluginConfig) -> TypeMeta | Unknown:
    kind = f"{plugin.name}Args"
    if kind not in ARGS:
        return Unknown(plugin.args)
    expected = _Type(GROUP, VERSION, kind)
    try:
        found = _type_of(plugin.args, expected)
        decoded, strict = gojson.decode(_find_registered_type(found), plugin.args or {})
    except DecodeError as problem:
        raise DecodeError(f"decoding args for plugin {plugin.name}: {problem}") from None
    if strict:
        inner = _StrictError(strict)
        raise _StrictError([f"decoding args for plugin {plugin.name}: {inner}"])
    if found.kind != kind:
        raise DecodeError(
            f"args for plugin {plugin.name} were not of type {kind}.{GROUP}, got {found.kind}.{GROUP}"
        )
    decoded.kind, decoded.api_version = kind, API_VERSION
    return decoded
