"""Deletes pods whose devices got a NoExecute taint that their claims don't tolerate."""

from dra_controller.devicetainteviction.controller import DeviceTaintEvictionController

__all__ = ["DeviceTaintEvictionController"]
