"""The messages of deviceplugin_v1beta1.proto. deviceplugin_v1beta1_pb2.pyi has their types."""

from dra_driverkit.proto.descriptors import define

define("deviceplugin_v1beta1", globals())
