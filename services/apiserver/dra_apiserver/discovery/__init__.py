"""Discovery documents as dicts.

``Discovery(registry)``: ``api_versions(server_address)`` (/api), ``groups()`` (/apis), ``group(name)``
(None: 404),
``resources(group, version)`` (/api/v1 and /apis/<g>/<v>; None: 404), ``aggregated(core)`` (``core``: /api,
else /apis, for Accept ``…;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList``). ``version_info()`` is
/version.
"""

from dra_apiserver.discovery.documents import AGGREGATED_API_VERSION, Discovery, git_version, version_info

__all__ = ["AGGREGATED_API_VERSION", "Discovery", "git_version", "version_info"]
