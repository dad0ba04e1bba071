"""What a profile's devices tell containers of themselves, in files."""

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
    """What writes the files, if the profile has any.

    Raises:
        DriverConfigError: that version of Kubernetes knows none of the profile's API versions.
    """
    template = profile.device_metadata
    if template is None:
        return None
    versions = [f"{GROUP}/{version}" for version in template.versions] or known_versions(kubernetes)
    return MetadataWriter(profile.driver, directories, versions, kubernetes)


def device_metadata(profile: Profile, device: Device, values: Mapping[str, Any]) -> DeviceMetadata | None:
    """What the files say of a device.

    Raises:
        PrepareError: the profile's network data are none.
    """
    template = profile.device_metadata
    if template is None:
        return None
    attributes = {
        name: value
        for name, value in device.attributes.items()
        if template.attributes is None or name in template.attributes
    }
    network = fill_entries((template.network_data,) if template.network_data else (), values)
    try:
        data = msgspec.convert(network[0], NetworkDeviceData) if network else None
    except msgspec.ValidationError as error:
        raise PrepareError(f"profile {profile.driver}: not network data: {error}") from error
    return DeviceMetadata(attributes, data)
