"""Creates claims from templates, and removes reservations and allocations that no pod needs.

Mirrors pkg/controller/resourceclaim.
"""

from dra_controller.resourceclaim.controller import ResourceClaimController

__all__ = ["ResourceClaimController"]
