"""The messages of health_v1alpha1.proto. health_v1alpha1_pb2.pyi has their types."""

from dra_driverkit.proto.descriptors import define

define("health_v1alpha1", globals())
