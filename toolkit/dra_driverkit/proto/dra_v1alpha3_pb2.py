"""The messages of dra_v1alpha3.proto. dra_v1alpha3_pb2.pyi has their types."""

from dra_driverkit.proto.descriptors import define

define("dra_v1alpha3", globals())
