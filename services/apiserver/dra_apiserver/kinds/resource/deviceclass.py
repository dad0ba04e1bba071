"""Validate DeviceClasses."""

from __future__ import annotations

from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_subdomain, is_extended_resource_name

from dra_apiserver.errors import FieldError, invalid
from dra_apiserver.kinds.resource.declared import limit
from dra_apiserver.kinds.resource.lists import Lists
from dra_apiserver.kinds.resource.opaque import check_configuration
from dra_apiserver.kinds.resource.selectors import check_selectors
from dra_apiserver.schema import same_members

_SPEC = "io.k8s.api.resource.v1.DeviceClassSpec"
_CONFIGS = limit("DeviceClassSpec", "config")


def device_class_name(name: str, prefix: bool) -> list[str]:
    """Check the name of a class. Upstream uses a declared rule here, whose length limit is in bytes."""
    checked = name[:-1] + "a" if prefix and len(name) > 1 and name.endswith("-") else name
    return dns_subdomain(checked, bytes_limit=True)


def check_class(
    spec: JsonObject, gates: FeatureGates, old: JsonObject | None = None, path: str = "spec"
) -> list[FieldError]:
    """Validate the spec of a class.

    Unchanged selectors and configuration are validated like stored ones, which may be older than a rule.
    """
    selectors, configs = spec.get("selectors") or [], spec.get("config") or []
    stored = old is not None and same_members(_SPEC, spec, old, "selectors")
    errors = check_selectors(selectors, f"{path}.selectors", gates, stored)
    config_stored = old is not None and same_members(_SPEC, spec, old, "config")
    errors += Lists(gates.version).check_list(
        configs,
        _CONFIGS,
        lambda config, at: check_configuration(config, at, gates.version, config_stored),
        f"{path}.config",
    )
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended_resource_name(name):
        text = "must be a valid extended resource name"
        errors.append(invalid(f"{path}.extendedResourceName", name, text))
    return errors
