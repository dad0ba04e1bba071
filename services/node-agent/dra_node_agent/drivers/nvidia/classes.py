"""The DeviceClasses that come with the driver (those of its Helm chart)."""

from dra_shared.api.meta import ObjectMeta
from dra_shared.api.resource import CELDeviceSelector, DeviceClass, DeviceClassSpec, DeviceSelector

from dra_node_agent.drivers.nvidia import DRIVER_NAME

_TYPES = {"gpu.nvidia.com": "gpu", "mig.nvidia.com": "mig", "vfio.gpu.nvidia.com": "vfio"}


def device_classes() -> list[DeviceClass]:
    """Return one class for each type of device. Whole GPUs also provide ``nvidia.com/gpu``."""
    return [
        DeviceClass(
            metadata=ObjectMeta(name=name),
            spec=DeviceClassSpec(
                selectors=(
                    DeviceSelector(
                        cel=CELDeviceSelector(
                            expression=f"device.driver == '{DRIVER_NAME}' && "
                            f"device.attributes['{DRIVER_NAME}'].type == '{type_}'"
                        )
                    ),
                ),
                extended_resource_name="nvidia.com/gpu" if type_ == "gpu" else None,
            ),
        )
        for name, type_ in _TYPES.items()
    ]
