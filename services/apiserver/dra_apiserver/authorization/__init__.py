"""Who may do what, where the server is started with ``--authorization-mode RBAC``.

``RBAC(store).authorize(attributes)`` decides by the stored roles and bindings; ``check_escalation`` keeps those who
write roles and bindings from giving away more than they have. Without the mode there is no authorizer, and everybody
may do everything.
"""

from dra_apiserver.authorization.attributes import Attributes, refusal
from dra_apiserver.authorization.escalation import check_escalation
from dra_apiserver.authorization.rbac import RBAC

__all__ = ["RBAC", "Attributes", "check_escalation", "refusal"]
