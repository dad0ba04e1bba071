"""The messages of dra_v1.proto. dra_v1_pb2.pyi has their types."""

from dra_driverkit.proto.descriptors import define

define("dra_v1", globals())
