"""Metadata files for containers of a profile's devices."""

from collections.abc import Mapping
from typing import Any

import msgspec
from dra_driverkit.claims import DeviceMetadata
from dra_driverkit.directories import Directories
from dra_driverkit.errors import PrepareError
from dra_driverkit.metadata import GROUP, MetadataWriter, known_versions
from dra_shared.api.resource import Device, NetworkDeviceData
from dra_shared.version import Version

from dra_node_agent.drivers.profile.model import Profile
from dra_node_agent.drivers.profile.template import fill_entries


def metadata_writer(profile: Profile, directories: Directories, kubernetes: Version) -> MetadataWriter | None:
    """Return a writer for the metadata files, or None if the profile has none.

    Raises:
        DriverConfigError: the version of Kubernetes supports none of the profile's API versions.
    """
    template = profile.device_metadata
    if template is None:
        return None
    versions = [f"{GROUP}/{version}" for version in template.versions] or known_versions(kubernetes)
    return MetadataWriter(profile.driver, directories, versions, kubernetes)


def device_metadata(profile: Profile, device: Device, values: Mapping[str, Any]) -> DeviceMetadata | None:
    """Return the metadata of a device, or None if the profile has none.

    Raises:
        PrepareError: the profile's network data is invalid.
    """
    template = profile.device_metadata
    if template is None:
        return None
    attributes = {
        name: value
        for name, value in device.attributes.items()
        if template.attributes is None or name in template.attributes
    }
    return DeviceMetadata(attributes, network_data(profile.driver, template.network_data, values))


def network_data(
    driver: str, template: Mapping[str, Any] | None, values: Mapping[str, Any]
) -> NetworkDeviceData | None:
    """Return the network data of a device, or None if the profile has none.

    Raises:
        PrepareError: the profile's network data have another form than the API's.
    """
    network = fill_entries((dict(template),) if template else (), values)
    try:
        return msgspec.convert(network[0], NetworkDeviceData) if network else None
    except msgspec.ValidationError as error:
        raise PrepareError(f"profile {driver}: not network data: {error}") from error
