"""Message classes from the descriptors of the .proto files, which are in descriptors.binpb."""

from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper


@cache
def _add_files() -> None:
    """Add all files to the pool."""
    data = Path(__file__).with_name("descriptors.binpb").read_bytes()
    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        descriptor_pool.Default().AddSerializedFile(file.SerializeToString())


def define(name: str, namespace: dict[str, Any]) -> None:
    """Define the messages and enums of a file in the namespace of its module."""
    _add_files()
    file = descriptor_pool.Default().FindFileByName(f"dra_driverkit/proto/{name}.proto")
    namespace["DESCRIPTOR"] = file
    for message in file.message_types_by_name.values():
        namespace[message.name] = message_factory.GetMessageClass(message)
    for enum in file.enum_types_by_name.values():
        namespace[enum.name] = EnumTypeWrapper(enum)
        namespace.update({value.name: value.number for value in enum.values})
