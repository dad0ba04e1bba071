"""Deletes pods whose devices got a NoExecute taint that their claims do not tolerate.

Mirrors pkg/controller/devicetainteviction.
"""

from dra_controller.devicetainteviction.controller import DeviceTaintEvictionController

__all__ = ["DeviceTaintEvictionController"]
