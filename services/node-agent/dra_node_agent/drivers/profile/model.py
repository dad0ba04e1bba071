"""A driver profile in the form of its file."""

import functools
from pathlib import Path
from typing import Any, dataclass_transform

import msgspec
from dra_driverkit.errors import DriverConfigError
from dra_shared.api.resource import DeviceClassSpec
from dra_shared.boundedfiles import read_file
from dra_shared.yamltext import YamlError, load

_DATA = Path(__file__).parent / "data"


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class _Data(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pass


class DeviceTemplate(_Data, kw_only=True):
    """A template for devices, or for groups of them.

    Args:
        each: loops. ``{gpu: 9}`` repeats the template for each value of ``gpu`` from 0 to 8. rows: repeats the
        template for each row of a table. The columns are names of values, for values without a rule, such as
        addresses. With both ``each`` and ``rows``, all loops run for each row. device: a device in the API's
        form, with placeholders. since: changes by version of Kubernetes, which are merged into ``device`` from
        that version on; null
            removes a field.
        devices: templates inside the loop, in order; instead of ``device``.
    """

    each: dict[str, int] = msgspec.field(default_factory=dict)
    rows: tuple[dict[str, str | int], ...] = ()
    device: dict[str, Any] | None = None
    since: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    devices: tuple["DeviceTemplate", ...] = ()


class CounterTemplate(_Data, kw_only=True):
    """A template for counter sets: ``each`` as for devices, ``counters`` by name."""

    each: dict[str, int] = msgspec.field(default_factory=dict)
    name: str
    counters: dict[str, str]


class PoolTemplate(_Data, kw_only=True):
    """A pool in addition to the one with the node's name.

    Args:
        name: with placeholders. With ``{node}`` each node has its own pool; otherwise the cluster has one.
        node_selector: the nodes that can use the devices, in the API's form; placeholders are replaced.
        all_nodes: whether all nodes can use them. generation: the minimum of the pool's generation.
        partition_type_attribute: in slices with partitions, the attribute with the type of each.
        skip_node_operations: in slices with devices, the calls that the kubelet need not make.
    """

    name: str
    node_selector: dict[str, Any] | None = None
    all_nodes: bool = False
    generation: int = 0
    devices: tuple[DeviceTemplate, ...] = ()
    shared_counters: tuple[CounterTemplate, ...] = ()
    partition_type_attribute: str | None = None
    skip_node_operations: tuple[str, ...] = ()


class ConfigField(_Data, kw_only=True):
    """A field of a config object, at a dotted path.

    Args:
        type: ``string``, ``integer`` or ``boolean``. enum: the allowed values; empty allows any. default: the
        value if the field is absent. when: values of other fields (by path) for which this field is allowed and
        gets its default. With other values the field is an error. error: the message for a value that is not
        allowed; ``{value}`` stands for it.
    """

    type: str = "string"
    enum: tuple[str, ...] = ()
    default: Any = None
    minimum: int | None = None
    maximum: int | None = None
    when: dict[str, Any] = msgspec.field(default_factory=dict)
    error: str = "invalid value: {value}"


class ConfigKind(_Data, kw_only=True):
    """A config object that claims and classes may contain for the driver's devices."""

    api_version: str
    kind: str
    fields: dict[str, ConfigField]


class Edits(_Data, kw_only=True):
    """CDI edits in the specification's form, with placeholders.

    An entry with a placeholder that has no value is left out.
    """

    env: tuple[str, ...] = ()
    device_nodes: tuple[dict[str, Any], ...] = ()
    mounts: tuple[dict[str, Any], ...] = ()
    hooks: tuple[dict[str, Any], ...] = ()
    net_devices: tuple[dict[str, Any], ...] = ()
    additional_gids: tuple[int, ...] = ()


class BindingConditions(_Data, kw_only=True):
    """Sets conditions that devices need for binding to true, like a controller.

    Args:
        after_seconds: how long after the allocation.
        fail: set the failure conditions instead.
    """

    after_seconds: float = 0
    fail: bool = False


class DevicePluginTemplate(_Data, kw_only=True):
    """Turns the profile into a device plugin: the kubelet counts its devices, and nothing is published.

    Args:
        resource_name: the extended resource, such as ``example.com/gpu``.
        by_cdi: pass the edits in a CDI file instead of in the answers to the kubelet.
    """

    resource_name: str
    by_cdi: bool = False


class MetadataTemplate(_Data, kw_only=True):
    """Makes the driver write metadata files about a claim's devices for containers.

    Args:
        versions: the API versions of the files, such as ``v1beta1``; without any, all that are known.
        attributes: the devices' attributes to write; by default all. network_data: of a network interface, in
        the API's form; placeholders count as in edits.
    """

    versions: tuple[str, ...] = ()
    attributes: tuple[str, ...] | None = None
    network_data: dict[str, Any] | None = None


class ConditionTemplate(_Data, kw_only=True):
    """A condition that prepared devices have in their claim's ``status.devices``. It is true."""

    type: str
    reason: str
    message: str = ""


class NamedClass(_Data, kw_only=True):
    """A DeviceClass that comes with the driver."""

    name: str
    spec: DeviceClassSpec


class Variant(_Data, kw_only=True):
    """The differences of a variant of the profile. Fields that are not set are inherited."""

    description: str = ""
    devices: tuple[DeviceTemplate, ...] | None = None
    shared_counters: tuple[CounterTemplate, ...] | None = None
    pools: tuple[PoolTemplate, ...] | None = None
    partition_type_attribute: str | None = None
    skip_node_operations: tuple[str, ...] | None = None
    common_edits: Edits | None = None
    binding_conditions: BindingConditions | None = None
    device_plugin: DevicePluginTemplate | None = None


class Profile(_Data, kw_only=True):
    """A driver.

    Args:
        driver: its name. follows: the repository, version and files of the driver that the profile imitates, if
        it imitates one. cdi_class: the class in its CDI names, ``k8s.<driver>/<class>``. cdi_vendor: the vendor
        in CDI names, if it is not ``k8s.<driver>``. device_classes: the DeviceClasses that come with it.
        devices: the devices of the node's own pool. generation: the minimum of this pool's generation. pools:
        further pools. partition_type_attribute: as for a pool, for the node's own. skip_node_operations: as for
        a pool, for the node's own. any_config: accept configs of any kind and content; ``configs`` are ignored.
        common_edits: edits that a container gets once, in addition to those of its devices. device_edits: the
        edits for each device. device_status: attributes that are copied into the claim's ``status.devices``
        when it is prepared. device_conditions: conditions of prepared devices in ``status.devices``.
        network_data: the network interface of a prepared device in ``status.devices``, in the API's form;
        placeholders
            count as in edits.
        device_metadata: write metadata files.
        serve_health: report all devices as healthy to the kubelet.
        device_plugin: be a device plugin for the node's own pool instead of a DRA driver.
    """

    driver: str
    description: str = ""
    follows: str = ""
    cdi_class: str
    cdi_vendor: str = ""
    device_classes: tuple[NamedClass, ...] = ()
    devices: tuple[DeviceTemplate, ...] = ()
    shared_counters: tuple[CounterTemplate, ...] = ()
    generation: int = 0
    pools: tuple[PoolTemplate, ...] = ()
    partition_type_attribute: str | None = None
    skip_node_operations: tuple[str, ...] = ()
    configs: tuple[ConfigKind, ...] = ()
    any_config: bool = False
    common_edits: Edits = Edits()
    device_edits: Edits = Edits()
    device_status: tuple[str, ...] = ()
    device_conditions: tuple[ConditionTemplate, ...] = ()
    network_data: dict[str, Any] | None = None
    device_metadata: MetadataTemplate | None = None
    serve_health: bool = False
    binding_conditions: BindingConditions | None = None
    device_plugin: DevicePluginTemplate | None = None
    variants: dict[str, Variant] = msgspec.field(default_factory=dict)

    @property
    def vendor(self) -> str:
        """The vendor in its CDI names."""
        return self.cdi_vendor or f"k8s.{self.driver}"

    def variant(self, name: str) -> "Profile":
        """Return the profile with the changes of a variant.

        Raises:
            DriverConfigError: there is no such variant.
        """
        if name not in self.variants:
            known = ", ".join(sorted(self.variants)) or "none"
            raise DriverConfigError(f"driver {self.driver} has no variant {name!r}, known variants: {known}")
        chosen = self.variants[name]
        return msgspec.structs.replace(
            self,
            devices=self.devices if chosen.devices is None else chosen.devices,
            shared_counters=self.shared_counters
            if chosen.shared_counters is None
            else chosen.shared_counters,
            pools=self.pools if chosen.pools is None else chosen.pools,
            partition_type_attribute=chosen.partition_type_attribute or self.partition_type_attribute,
            skip_node_operations=self.skip_node_operations
            if chosen.skip_node_operations is None
            else chosen.skip_node_operations,
            common_edits=chosen.common_edits or self.common_edits,
            binding_conditions=chosen.binding_conditions or self.binding_conditions,
            device_plugin=chosen.device_plugin or self.device_plugin,
        )


@functools.cache
def known_profiles() -> dict[str, Path]:
    """Return the profiles of the package, by driver name."""
    return {path.stem: path for path in sorted(_DATA.glob("*.yaml"))}


def load_profile(name: str) -> Profile:
    """Load a profile by driver name or file, optionally with a variant: ``gpu.example.com:shared``, ``my.yaml``.

    Raises:
        DriverConfigError: the profile or variant does not exist, or the file is not a profile.
    """
    path, variant = _locate(name)
    try:
        profile = msgspec.convert(load(read_file(path)).value, Profile)
    except OSError as error:
        raise DriverConfigError(f"cannot read driver profile {path}: {error.strerror}") from error
    except (YamlError, msgspec.ValidationError) as error:
        raise DriverConfigError(f"driver profile {path}: {error}") from error
    return profile.variant(variant) if variant else profile


def _locate(name: str) -> tuple[Path, str]:
    base, _, variant = name.partition(":")
    if base.endswith((".yaml", ".yml")):
        return Path(base), variant
    profiles = known_profiles()
    if base not in profiles:
        raise DriverConfigError(f"unknown driver profile {name!r}, known: {', '.join(profiles)}")
    return profiles[base], variant
