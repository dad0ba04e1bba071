"""Makes claims from templates, and keeps reservations and allocations only as long as someone needs them."""

from dra_controller.resourceclaim.controller import ResourceClaimController

__all__ = ["ResourceClaimController"]
