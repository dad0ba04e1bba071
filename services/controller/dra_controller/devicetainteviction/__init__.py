"""Deletes pods whose devices got a NoExecute taint that their claims don't tolerate.

Mirrors pkg/controller/devicetainteviction.
"""

from dra_controller.devicetainteviction.controller import DeviceTaintEvictionController

__all__ = ["DeviceTaintEvictionController"]
