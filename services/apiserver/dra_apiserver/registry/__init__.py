"""The served kinds, and how to find them.

``Registry.resource(group, version, plural)`` and ``Registry.kind(group, version, kind)`` find a
:class:`dra_apiserver.kindkit.kind.Kind`. Custom resources are added with ``Registry.add``. The built-in kinds come from
``dra_apiserver.kinds.catalog``.
"""

from dra_apiserver.registry.registry import Registry, version_priority
from dra_apiserver.registry.runtime_config import RuntimeConfig, RuntimeConfigError

__all__ = ["Registry", "RuntimeConfig", "RuntimeConfigError", "version_priority"]
