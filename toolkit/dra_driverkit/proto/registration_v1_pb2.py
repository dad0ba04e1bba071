"""The messages of registration_v1.proto. registration_v1_pb2.pyi has their types."""

from dra_driverkit.proto.descriptors import define

define("registration_v1", globals())
