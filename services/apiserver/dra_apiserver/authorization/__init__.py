"""Who may do what, where the server is started with ``--authorization-mode RBAC`` or ``Node,RBAC``.

An :class:`Authorizer` decides: by the stored roles and bindings (``dra_apiserver.kinds.rbac.authorizer``), for nodes by
the pods that are theirs (``dra_apiserver.kinds.kubelets.authorizer``), or a :class:`Union` of several. Without a mode
there is none, and everybody may do everything.
"""

from dra_apiserver.authorization.attributes import Attributes, refusal
from dra_apiserver.authorization.authorizer import Authorizer
from dra_apiserver.authorization.union import Union

__all__ = ["Attributes", "Authorizer", "Union", "refusal"]
