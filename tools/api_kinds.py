"""Writes shared/dra_shared/api/schema/kinds.json from recorded discovery documents.

    python -m tools.api_kinds DISCOVERY_DIR

DISCOVERY_DIR holds ``api__v1.json.gz`` and ``aggregated_v2.json.gz`` as a Kubernetes API server answers them
with every version switched on. What discovery does not say (storage versions, selectable fields, scale
paths, shared storage) is in the tables below.
"""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parent.parent / "shared/dra_shared/api/schema/kinds.json"

ALL_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
STATUS_VERBS = ["get", "patch", "update"]

# Fields a field selector may name, beside metadata.name and metadata.namespace: label -> [JSON path, value
# when absent].
SELECTABLE: dict[str, dict[str, list[str]]] = {
    "/pods": {
        "spec.nodeName": ["spec.nodeName", ""],
        "spec.restartPolicy": ["spec.restartPolicy", ""],
        "spec.schedulerName": ["spec.schedulerName", ""],
        "spec.serviceAccountName": ["spec.serviceAccountName", ""],
        "spec.hostNetwork": ["spec.hostNetwork", "false"],
        "status.phase": ["status.phase", ""],
        "status.podIP": ["status.podIP", ""],
        "status.podIPs": ["status.podIP", ""],
        "status.nominatedNodeName": ["status.nominatedNodeName", ""],
    },
    "/nodes": {"spec.unschedulable": ["spec.unschedulable", "false"]},
    "/namespaces": {"status.phase": ["status.phase", ""], "name": ["metadata.name", ""]},
    "/secrets": {"type": ["type", ""]},
    "/services": {"spec.clusterIP": ["spec.clusterIP", ""], "spec.type": ["spec.type", ""]},
    "/persistentvolumes": {"name": ["metadata.name", ""]},
    "/persistentvolumeclaims": {"name": ["metadata.name", ""]},
    "/replicationcontrollers": {"status.replicas": ["status.replicas", "0"]},
    "/events": {
        "involvedObject.kind": ["involvedObject.kind", ""],
        "involvedObject.namespace": ["involvedObject.namespace", ""],
        "involvedObject.name": ["involvedObject.name", ""],
        "involvedObject.uid": ["involvedObject.uid", ""],
        "involvedObject.apiVersion": ["involvedObject.apiVersion", ""],
        "involvedObject.resourceVersion": ["involvedObject.resourceVersion", ""],
        "involvedObject.fieldPath": ["involvedObject.fieldPath", ""],
        "reason": ["reason", ""],
        "reportingComponent": ["reportingComponent", ""],
        "source": ["source.component|reportingComponent", ""],
        "type": ["type", ""],
    },
    "events.k8s.io/events": {
        "regarding.kind": ["regarding.kind", ""],
        "regarding.namespace": ["regarding.namespace", ""],
        "regarding.name": ["regarding.name", ""],
        "regarding.uid": ["regarding.uid", ""],
        "regarding.apiVersion": ["regarding.apiVersion", ""],
        "regarding.resourceVersion": ["regarding.resourceVersion", ""],
        "regarding.fieldPath": ["regarding.fieldPath", ""],
        "reason": ["reason", ""],
        "reportingController": ["reportingController", ""],
        "type": ["type", ""],
    },
    "apps/replicasets": {"status.replicas": ["status.replicas", "0"]},
    "batch/jobs": {"status.successful": ["status.succeeded", "0"]},
    "certificates.k8s.io/certificatesigningrequests": {"spec.signerName": ["spec.signerName", ""]},
    "certificates.k8s.io/clustertrustbundles": {"spec.signerName": ["spec.signerName", ""]},
    "certificates.k8s.io/podcertificaterequests": {
        "spec.signerName": ["spec.signerName", ""],
        "spec.podName": ["spec.podName", ""],
        "spec.nodeName": ["spec.nodeName", ""],
    },
    "resource.k8s.io/resourceslices": {
        "spec.nodeName": ["spec.nodeName", ""],
        "spec.driver": ["spec.driver", ""],
    },
}
# The version objects are stored in, where it is not the first one discovery lists.
STORAGE_VERSION = {
    "autoscaling/horizontalpodautoscalers": "v2",
    "resource.k8s.io/devicetaintrules": "v1alpha3",
    "resource.k8s.io/resourcepoolstatusrequests": "v1alpha3",
}
# Kinds that are another kind's objects in other clothes.
STORED_AS = {"events.k8s.io/events": "/events"}
SCALE = ["spec.replicas", "status.replicas", "status.selector"]


def load(folder: Path, name: str) -> dict[str, Any]:
    with gzip.open(folder / f"{name}.json.gz", "rb") as file:
        document: dict[str, Any] = json.load(file)
        return document


def verbs_entry(verbs: list[str]) -> list[str] | str:
    return "all" if verbs == ALL_VERBS else verbs


def subresource_entry(group: str, version: str, kind: str, sub: dict[str, Any]) -> Any:
    if sub["kind"] == kind and not sub["group"]:
        return "status" if sub["verbs"] == STATUS_VERBS else sub["verbs"]
    entry = {"kind": sub["kind"], "verbs": sub["verbs"]}
    if sub["group"]:
        entry |= {"group": sub["group"], "version": sub["version"]}
    return entry


def core_kinds(document: dict[str, Any]) -> list[dict[str, Any]]:
    kinds: dict[str, dict[str, Any]] = {}
    for resource in document["resources"]:
        name, _, sub = resource["name"].partition("/")
        if sub:
            target = kinds.setdefault(name, {"subresources": {}})
            target["subresources"][sub] = {
                "kind": resource["kind"],
                "group": resource.get("group", ""),
                "version": resource.get("version", ""),
                "verbs": resource["verbs"],
            }
            continue
        kinds[name] = {
            "group": "",
            "kind": resource["kind"],
            "plural": name,
            "singular": resource["singularName"],
            "namespaced": resource["namespaced"],
            "versions": ["v1"],
            "shortNames": resource.get("shortNames", []),
            "categories": resource.get("categories", []),
            "verbs": resource["verbs"],
            "subresources": {},
        }
    return list(kinds.values())


def group_kinds(group: dict[str, Any]) -> list[dict[str, Any]]:
    kinds: dict[str, dict[str, Any]] = {}
    for version in group["versions"]:
        for resource in version["resources"]:
            entry = {
                "group": group["metadata"]["name"],
                "kind": resource["responseKind"]["kind"],
                "plural": resource["resource"],
                "singular": resource["singularResource"],
                "namespaced": resource["scope"] == "Namespaced",
                "versions": [version["version"]],
                "shortNames": resource.get("shortNames", []),
                "categories": resource.get("categories", []),
                "verbs": resource["verbs"],
                "subresources": {
                    sub["subresource"]: {**sub["responseKind"], "verbs": sub["verbs"]}
                    for sub in resource.get("subresources", [])
                },
            }
            known = kinds.get(resource["resource"])
            if known is None:
                kinds[resource["resource"]] = entry
            elif {**known, "versions": []} == {**entry, "versions": []}:
                known["versions"].append(version["version"])
            else:
                raise SystemExit(f"{resource['resource']}: versions differ in more than their name")
    return list(kinds.values())


def finish(entry: dict[str, Any]) -> dict[str, Any]:
    key = f"{entry['group']}/{entry['plural']}"
    result: dict[str, Any] = {
        name: entry[name] for name in ("group", "kind", "plural", "singular", "namespaced")
    }
    result["versions"] = entry["versions"]
    result["storageVersion"] = STORAGE_VERSION.get(key, entry["versions"][0])
    if key in STORED_AS:
        result["storedAs"] = STORED_AS[key]
    for name in ("shortNames", "categories"):
        if entry[name]:
            result[name] = entry[name]
    result["verbs"] = verbs_entry(entry["verbs"])
    if entry["subresources"]:
        result["subresources"] = {
            name: subresource_entry(entry["group"], entry["versions"][0], entry["kind"], sub)
            for name, sub in entry["subresources"].items()
        }
    if key in SELECTABLE:
        result["selectableFields"] = SELECTABLE[key]
    if "scale" in entry["subresources"]:
        result["scale"] = SCALE
    return result


def main() -> None:
    folder = Path(sys.argv[1])
    entries = core_kinds(load(folder, "api__v1"))
    groups = [{"name": "", "versions": ["v1"]}]
    for group in load(folder, "aggregated_v2")["items"]:
        groups.append(
            {
                "name": group["metadata"]["name"],
                "versions": [version["version"] for version in group["versions"]],
            }
        )
        entries += group_kinds(group)
    lines = ",\n".join("  " + json.dumps(finish(entry)) for entry in entries)
    TARGET.write_text('{"groups": ' + json.dumps(groups) + ',\n "kinds": [\n' + lines + "\n]}\n")
    print(f"{len(entries)} kinds in {len(groups)} groups -> {TARGET}")


if __name__ == "__main__":
    main()
