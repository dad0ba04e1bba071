"""Who may do what, where the server is started with ``--authorization-mode RBAC``.

An :class:`Authorizer` decides; the one there is reads the stored roles and bindings
(``dra_apiserver.kinds.rbac.authorizer``). Without the mode there is none, and everybody may do everything.
"""

from dra_apiserver.authorization.attributes import Attributes, refusal
from dra_apiserver.authorization.authorizer import Authorizer

__all__ = ["Attributes", "Authorizer", "refusal"]
