"""Keeps objects of today behind those of classic DRA, and brings their status back in the old form."""

from dra_controller.classicdra.controller import ClassicDRAController

__all__ = ["ClassicDRAController"]
