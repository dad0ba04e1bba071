"""What a cluster has before anybody created anything, as kube-apiserver's post-start hooks make it.

``make_missing(api)`` makes those that are not there; ``Followers(api, served)`` keeps the objects that the server
derives from others: an IPAddress for each address of a service, an APIService for each group and version.
"""

from dra_apiserver.bootstrap.follow import Followers
from dra_apiserver.bootstrap.objects import make_missing

__all__ = ["Followers", "make_missing"]
