"""Authorization, if the server runs with ``--authorization-mode RBAC`` or ``Node,RBAC``.

An :class:`Authorizer` decides: by the stored roles and bindings (``dra_apiserver.kinds.rbac.authorizer``),
for nodes by the pods on them (``dra_apiserver.kinds.kubelets.authorizer``), or a :class:`Union` of several.
Without a mode there is no authorizer, and every user may do everything.
"""

from dra_apiserver.authorization.attributes import Attributes, refusal
from dra_apiserver.authorization.authorizer import Authorizer
from dra_apiserver.authorization.union import Union

__all__ = ["Attributes", "Authorizer", "Union", "refusal"]
