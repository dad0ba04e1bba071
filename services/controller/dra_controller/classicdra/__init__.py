"""Creates current objects for those of classic DRA, and translates their status back to the old form."""

from dra_controller.classicdra.controller import ClassicDRAController

__all__ = ["ClassicDRAController"]
