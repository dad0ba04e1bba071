"""The messages of podresources_v1.proto. podresources_v1_pb2.pyi has their types."""

from dra_driverkit.proto.descriptors import define

define("podresources_v1", globals())
