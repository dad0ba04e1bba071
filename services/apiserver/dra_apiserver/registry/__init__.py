"""The kinds that the API server serves, as data.

``Registry.default(runtime_config)`` reads the built-in kinds from ``dra_shared.api.schema`` (one entry a
kind);
``Registry.resource(group, version, plural)`` and ``Registry.kind(group, version, kind)`` find a
:class:`KindInfo`. Custom resources are added with ``Registry.add``.
"""

from dra_apiserver.registry.kinds import (
    CustomVersion,
    KindInfo,
    Object,
    PrinterColumn,
    ScalePaths,
    SelectableField,
    Subresource,
    api_version,
    split_api_version,
)
from dra_apiserver.registry.registry import Registry, selectable_field, version_priority
from dra_apiserver.registry.runtime_config import RuntimeConfig, RuntimeConfigError

__all__ = [
    "CustomVersion",
    "KindInfo",
    "Object",
    "PrinterColumn",
    "Registry",
    "RuntimeConfig",
    "RuntimeConfigError",
    "ScalePaths",
    "SelectableField",
    "Subresource",
    "api_version",
    "selectable_field",
    "split_api_version",
    "version_priority",
]
