"""Build discovery documents: the served groups, versions and resources."""

import hashlib

import orjson
from dra_shared.jsontypes import JsonObject
from dra_shared.version import Version, release

from dra_apiserver.kindkit.kind import Kind, api_version
from dra_apiserver.kindkit.serving import Subresource
from dra_apiserver.registry import Registry

AGGREGATED_API_VERSION = "apidiscovery.k8s.io/v2"


class Discovery:
    """The discovery documents of a registry, rebuilt when kinds are added or removed."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._made: dict[tuple[str, ...], tuple[int, JsonObject | None]] = {}

    def _get_cached(self, *key: str) -> tuple[bool, JsonObject | None]:
        found = self._made.get(key)
        if found is None or found[0] != self._registry.generation:
            return False, None
        return True, found[1]

    def _keep(self, document: JsonObject | None, *key: str) -> JsonObject | None:
        if document is not None:
            self._made[key] = (self._registry.generation, document)
        return document

    def api_versions(self, server_address: str) -> JsonObject:
        """Return ``/api``: the core group's versions."""
        return {
            "kind": "APIVersions",
            "versions": self._registry.versions(""),
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
        }

    def groups(self) -> JsonObject:
        """Return ``/apis``: every named group."""
        hit, document = self._get_cached("groups")
        if not hit or document is None:
            groups = [self._group(name) for name in self._registry.groups() if name]
            document = {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            self._keep(document, "groups")
        return document

    def group(self, name: str) -> JsonObject | None:
        """Return ``/apis/<name>``, or None if there is no such group."""
        if not name or not self._registry.versions(name):
            return None
        return {"kind": "APIGroup", "apiVersion": "v1", **self._group(name)}

    def _group(self, name: str) -> JsonObject:
        versions = [
            {"groupVersion": api_version(name, version), "version": version}
            for version in self._registry.versions(name)
        ]
        return {"name": name, "versions": versions, "preferredVersion": versions[0]}

    def resources(self, group: str, version: str) -> JsonObject | None:
        """Return ``/api/<version>`` or ``/apis/<group>/<version>``, or None if it is not served."""
        hit, document = self._get_cached("resources", group, version)
        if hit:
            return document
        if version not in self._registry.versions(group):
            return None
        listed: list[JsonObject] = []
        for info in self._registry.kinds_in(group, version):
            listed.append(_resource(info))
            listed += [_subresource(info, sub, version) for sub in _subresources(info, version)]
        document = {
            "kind": "APIResourceList",
            "groupVersion": api_version(group, version),
            "resources": listed,
        }
        if group:
            document["apiVersion"] = "v1"
        return self._keep(document, "resources", group, version)

    def build_aggregated(self, *, core: bool) -> JsonObject:
        """Return all of discovery in one document: the core group at ``/api``, all others at ``/apis``."""
        key = "core" if core else "all"
        hit, document = self._get_cached("aggregated", key)
        if not hit or document is None:
            names = [name for name in self._registry.groups() if bool(name) is not core]
            document = {
                "kind": "APIGroupDiscoveryList",
                "apiVersion": AGGREGATED_API_VERSION,
                "metadata": {},
                "items": [self._aggregated_group(name) for name in names],
            }
            self._keep(document, "aggregated", key)
        return document

    def tag(self, *, core: bool) -> str:
        """Return a tag that changes with the aggregated document (`aggregated/etag.go`)."""
        document = self.build_aggregated(core=core)
        key = ("tag", "core" if core else "all")
        hit, kept = self._get_cached(*key)
        if not hit or kept is None:
            kept = {"tag": hashlib.sha512(orjson.dumps(document)).hexdigest().upper()}
            self._keep(kept, *key)
        tag: str = kept["tag"]
        return tag

    def _aggregated_group(self, name: str) -> JsonObject:
        versions = []
        for version in self._registry.versions(name):
            resources = [
                _aggregated_resource(info, version) for info in self._registry.kinds_in(name, version)
            ]
            versions.append({"version": version, "resources": resources, "freshness": "Current"})
        return {"metadata": {"name": name} if name else {}, "versions": versions}


def _subresources(info: Kind, version: str) -> list[Subresource]:
    found = info.subresources_in(version)
    return [found[name] for name in sorted(found)]


def _resource(info: Kind) -> JsonObject:
    made: JsonObject = {
        "name": info.plural,
        "singularName": info.singular,
        "namespaced": info.namespaced,
        "kind": info.kind,
        "verbs": sorted(info.verbs),
    }
    if info.short_names:
        made["shortNames"] = list(info.short_names)
    if info.categories:
        made["categories"] = list(info.categories)
    if info.is_stored:
        made["storageVersionHash"] = info.storage_version_hash()
    return made


def _foreign(info: Kind, sub: Subresource) -> bool:
    """True if a subresource's kind belongs to another group than the resource, such as Scale of autoscaling."""
    return sub.group != info.group


def _subresource(info: Kind, sub: Subresource, version: str) -> JsonObject:
    made: JsonObject = {
        "name": f"{info.plural}/{sub.name}",
        "singularName": "",
        "namespaced": info.namespaced,
        "kind": sub.kind,
        "verbs": sorted(sub.verbs),
    }
    if _foreign(info, sub):
        made |= {"group": sub.group, "version": sub.version}
    return made


def _aggregated_resource(info: Kind, version: str) -> JsonObject:
    made: JsonObject = {
        "resource": info.plural,
        "responseKind": {"group": "", "version": "", "kind": info.kind},
        "scope": "Namespaced" if info.namespaced else "Cluster",
        "singularResource": info.singular,
        "verbs": sorted(info.verbs),
    }
    if info.short_names:
        made["shortNames"] = list(info.short_names)
    if info.categories:
        made["categories"] = list(info.categories)
    subresources = [
        {
            "subresource": sub.name,
            "responseKind": {
                "group": sub.group if _foreign(info, sub) else "",
                "version": sub.version if _foreign(info, sub) else "",
                "kind": sub.kind,
            },
            "verbs": sorted(sub.verbs),
        }
        for sub in _subresources(info, version)
    ]
    if subresources:
        made["subresources"] = subresources
    return made


def git_version(kubernetes: Version) -> str:
    """Return the version in the server's own format, such as v1.36.2+dralab."""
    return f"{release(kubernetes).git_version}+dralab"


def version_info(kubernetes: Version) -> JsonObject:
    """Return ``/version``: the Kubernetes version whose API is served."""
    major, minor = str(kubernetes.major), kubernetes.minor
    return {
        "major": major,
        "minor": str(minor),
        "emulationMajor": major,
        "emulationMinor": str(minor),
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(minor - 1),
        "gitVersion": git_version(kubernetes),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    }
