"""What a cluster has before anybody created anything, as kube-apiserver's post-start hooks make it.

``make_missing(api)`` makes those that are not there; ``Followers(api, served)`` keeps the objects that the server
derives from others: an IPAddress for each address of a service, an APIService for each group and version;
``Restorer(api, port, addresses)`` makes again what kube-apiserver keeps, which leads to the server's ``advertised``
address. ``load_past`` has an empty database begin with another cluster's past.
"""

from dra_apiserver.kinds.bootstrap.follow import Followers
from dra_apiserver.kinds.bootstrap.objects import make_missing
from dra_apiserver.kinds.bootstrap.past import load_past
from dra_apiserver.kinds.bootstrap.restore import Restorer, advertised

__all__ = ["Followers", "Restorer", "advertised", "load_past", "make_missing"]
