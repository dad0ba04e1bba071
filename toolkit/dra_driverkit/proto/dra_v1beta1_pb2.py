"""The messages of dra_v1beta1.proto. dra_v1beta1_pb2.pyi has their types."""

from dra_driverkit.proto.descriptors import define

define("dra_v1beta1", globals())
