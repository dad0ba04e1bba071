"""The Container Device Interface: the specs that drivers write, and their effect on containers.

``write_spec`` writes a spec to the directory that runtimes read. ``resolve`` returns the container edits of
CDI device ids, from the spec files of a directory.
"""

from dra_driverkit.cdi.hooks import HookEffects, collect_effects
from dra_driverkit.cdi.names import device_name_problem, parse_qualified_name, qualified_name
from dra_driverkit.cdi.resolver import UnresolvableError, resolve
from dra_driverkit.cdi.spec import (
    CdiDevice,
    ContainerEdits,
    DeviceNode,
    Hook,
    IntelRdt,
    Mount,
    NetDevice,
    Spec,
    SpecError,
    minimum_version,
)
from dra_driverkit.cdi.writer import read_spec, remove_spec, remove_unknown_specs, transient_name, write_spec

__all__ = [
    "CdiDevice",
    "ContainerEdits",
    "DeviceNode",
    "Hook",
    "HookEffects",
    "IntelRdt",
    "Mount",
    "NetDevice",
    "Spec",
    "SpecError",
    "UnresolvableError",
    "collect_effects",
    "device_name_problem",
    "minimum_version",
    "parse_qualified_name",
    "qualified_name",
    "read_spec",
    "remove_spec",
    "remove_unknown_specs",
    "resolve",
    "transient_name",
    "write_spec",
]
