"""The objects that every cluster has from the start, as created by kube-apiserver's post-start hooks.

``make_missing(api)`` creates those that are missing. ``Followers(api, served)`` keeps the objects that the
server derives from others: an IPAddress for each address of a service, an APIService for each group and
version. ``Restorer(api, port, addresses)`` restores the objects that kube-apiserver maintains, with the
server's ``advertised_address``. ``load_past`` fills an empty database with another cluster's history.
"""

from dra_apiserver.kinds.bootstrap.follow import Followers
from dra_apiserver.kinds.bootstrap.objects import make_missing
from dra_apiserver.kinds.bootstrap.past import load_past
from dra_apiserver.kinds.bootstrap.restore import Restorer

__all__ = ["Followers", "Restorer", "load_past", "make_missing"]
