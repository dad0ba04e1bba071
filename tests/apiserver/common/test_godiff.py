"""Test the difference between two objects as Go prints it. Expected texts follow encoding/json and difflib."""

import httpx
from dra_apiserver.common.godiff import godiff

_PODS = "/api/v1/namespaces/default/pods"
_MERGE = {"Content-Type": "application/merge-patch+json"}


def test_a_pods_fields_have_their_go_names_and_zero_values() -> None:
    old = {"containers": [{"name": "c", "tty": True}], "hostNetwork": True, "nodeName": "n"}
    assert godiff(old, old, "PodSpec") == ""
    new = {"containers": [{"name": "c"}], "nodeName": "n", "securityContext": {"runAsUser": 1}}
    assert godiff(old, new, "PodSpec").split("\n") == [
        "@@ -31,7 +31,7 @@",
        '    "SecurityContext": null,',
        '    "Stdin": false,',
        '    "StdinOnce": false,',
        '-   "TTY": true',
        '+   "TTY": false',
        "   }",
        "  ],",
        '  "EphemeralContainers": null,',
        "@@ -44,14 +44,14 @@",
        '  "AutomountServiceAccountToken": null,',
        '  "NodeName": "n",',
        '  "SecurityContext": {',
        '-  "HostNetwork": true,',
        '+  "HostNetwork": false,',
        '   "HostPID": false,',
        '   "HostIPC": false,',
        '   "ShareProcessNamespace": null,',
        '   "HostUsers": null,',
        '   "SELinuxOptions": null,',
        '   "WindowsOptions": null,',
        '-  "RunAsUser": null,',
        '+  "RunAsUser": 1,',
        '   "RunAsGroup": null,',
        '   "RunAsNonRoot": null,',
        '   "SupplementalGroups": null,',
        "",
    ]


def test_embedded_structs_labels_and_escapes_are_printed_as_in_go() -> None:
    def spec(key: str, text: str) -> dict[str, object]:
        term = {"topologyKey": text, "labelSelector": {"matchLabels": {"b": "1", "a": "2"}}}
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        env = [{"name": "E", "valueFrom": {"configMapKeyRef": {"name": "m", "key": key}}}]
        return {"containers": [{"name": "c", "env": env}], "affinity": affinity}

    text = godiff(spec("k", "<a&b>"), spec("l", "t"), "PodSpec")
    assert " " * 8 + '"Name": "m",\n-       "Key": "k",\n+       "Key": "l",\n' in text
    assert '-     "TopologyKey": "\\u003ca\\u0026b\\u003e",\n+     "TopologyKey": "t",\n' in text
    labels = godiff(spec("k", "t"), {**spec("k", "t"), "affinity": None}, "PodSpec")
    assert '-       "a": "2",\n-       "b": "1"\n' in labels


def test_claim_specs_and_volume_sources_are_printed_as_in_go() -> None:
    old = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    assert godiff(old, {**old, "volumeMode": "Block"}, "PersistentVolumeClaimSpec").split("\n") == [
        "@@ -11,7 +11,7 @@",
        "  },",
        '  "VolumeName": "",',
        '  "StorageClassName": null,',
        '- "VolumeMode": null,',
        '+ "VolumeMode": "Block",',
        '  "DataSource": null,',
        '  "DataSourceRef": null,',
        '  "VolumeAttributesClassName": null',
        "",
    ]
    source = godiff({"hostPath": {"path": "/a"}}, {"hostPath": {"path": "/b"}}, "PersistentVolumeSource")
    assert '-  "Path": "/a",\n+  "Path": "/b",\n   "Type": null\n' in source


async def test_a_rejected_pod_update_lists_the_difference(client: httpx.AsyncClient) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert (await client.post(_PODS, json=pod)).status_code == 201
    answer = await client.patch(f"{_PODS}/p", json={"spec": {"dnsPolicy": "Default"}}, headers=_MERGE)
    assert answer.status_code == 422
    first, *lines = answer.json()["details"]["causes"][0]["message"].split("\n")
    assert first.startswith(
        "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    )
    assert lines[0].startswith("@@ -")
    assert [line for line in lines if line.startswith(("-", "+"))] == [
        '- "DNSPolicy": "ClusterFirst",',
        '+ "DNSPolicy": "Default",',
    ]
