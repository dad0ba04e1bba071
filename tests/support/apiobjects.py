"""A well-formed object of each kind that is validated, with most of its fields."""

from typing import Any

from dra_shared.jsontypes import JsonObject

_REQUEST: JsonObject = {
    "deviceClassName": "gpu",
    "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}],
    "allocationMode": "ExactCount",
    "count": 2,
    "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute"}],
    "capacity": {"requests": {"memory": "10Gi"}},
}
_SPEC: JsonObject = {
    "devices": {
        "requests": [
            {"name": "a", "exactly": {**_REQUEST, "adminAccess": False}},
            {"name": "b", "firstAvailable": [{"name": "c", **_REQUEST}]},
        ],
        "constraints": [{"requests": ["a"], "matchAttribute": "example.com/model"}],
        "config": [{"requests": ["b/c"], "opaque": {"driver": "gpu.example.com", "parameters": {"x": 1}}}],
    }
}
_TERMS: JsonObject = {
    "nodeSelectorTerms": [
        {
            "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}],
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node"]}],
        }
    ]
}
_STATUS: JsonObject = {
    "allocation": {
        "devices": {
            "results": [
                {
                    "request": "a",
                    "driver": "gpu.example.com",
                    "pool": "node",
                    "device": "gpu-0",
                    "bindingConditions": ["ready"],
                    "bindingFailureConditions": ["failed"],
                    "shareID": "8ba5b10b-2be4-4c1f-8b1d-2a4f3a2b0c11",
                    "consumedCapacity": {"memory": "10Gi"},
                }
            ],
            "config": [
                {"source": "FromClaim", "requests": ["a"], "opaque": {"driver": "d", "parameters": {}}}
            ],
        },
        "nodeSelector": _TERMS,
    },
    "reservedFor": [{"resource": "pods", "name": "pod", "uid": "1"}],
    "devices": [
        {
            "driver": "gpu.example.com",
            "pool": "node",
            "device": "gpu-0",
            "shareID": "8ba5b10b-2be4-4c1f-8b1d-2a4f3a2b0c11",
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "Ok",
                    "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ],
            "data": {"a": 1},
            "networkData": {"interfaceName": "eth0", "ips": ["10.0.0.1/24"], "hardwareAddress": "00:11"},
        }
    ],
}
_DEVICE: JsonObject = {
    "name": "gpu-0",
    "attributes": {
        "model": {"string": "x"},
        "example.com/index": {"int": 1},
        "driverVersion": {"version": "1.2.3"},
        "ok": {"bool": True},
    },
    "capacity": {
        "memory": {
            "value": "40Gi",
            "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "max": "8Gi", "step": "1Gi"}},
        },
        "cores": {"value": "8", "requestPolicy": {"default": "1", "validValues": ["1", "2"]}},
    },
    "allowMultipleAllocations": True,
    "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}],
    "consumesCounters": [{"counterSet": "set", "counters": {"memory": {"value": "10Gi"}}}],
    "bindsToNode": True,
    "bindingConditions": ["ready"],
    "bindingFailureConditions": ["failed"],
    "nodeAllocatableResourceMappings": {"cpu": {"capacityKey": "cores", "allocationMultiplier": "2"}},
}


def _resource(kind: str, spec: JsonObject, version: str = "v1", **more: Any) -> JsonObject:
    meta: JsonObject = {"name": "it", "labels": {"a": "b"}, "annotations": {"c": "d"}, "resourceVersion": "1"}
    if kind in ("ResourceClaim", "ResourceClaimTemplate"):
        meta["namespace"] = "default"
    return {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": meta, "spec": spec, **more}


CLAIM = _resource("ResourceClaim", _SPEC, status=_STATUS)
TEMPLATE = _resource("ResourceClaimTemplate", {"metadata": {"labels": {"a": "b"}}, "spec": _SPEC})
SLICE = _resource(
    "ResourceSlice",
    {
        "driver": "gpu.example.com",
        "pool": {"name": "node", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "node",
        "devices": [_DEVICE, {"name": "gpu-1", "nodeSelector": _TERMS}],
        "sharedCounters": [{"name": "set", "counters": {"memory": {"value": "80Gi"}}}],
    },
)
CLASS = _resource(
    "DeviceClass",
    {
        "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}],
        "config": [{"opaque": {"driver": "gpu.example.com", "parameters": {"kind": "x"}}}],
        "extendedResourceName": "example.com/gpu",
    },
)
RULE = _resource(
    "DeviceTaintRule",
    {
        "deviceSelector": {"driver": "gpu.example.com", "pool": "node", "device": "gpu-0"},
        "taint": {"key": "a", "value": "b", "effect": "NoExecute"},
    },
    "v1beta2",
    status={"conditions": _STATUS["devices"][0]["conditions"]},
)
POOL_STATUS = _resource(
    "ResourcePoolStatusRequest",
    {"driver": "gpu.example.com", "poolName": "node", "limit": 10},
    "v1alpha3",
    status={"poolCount": 1, "pools": [{"driver": "d", "poolName": "p", "generation": 1, "totalDevices": 1}]},
)


def _core(api_version: str, kind: str, name: str = "it", **more: Any) -> JsonObject:
    meta: JsonObject = {"name": name, "namespace": "default", "labels": {"a": "b"}, "resourceVersion": "1"}
    if kind in ("Node", "PriorityClass"):
        del meta["namespace"]
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, **more}


POD_SPEC: JsonObject = {
    "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "m"}}],
    "resourceClaims": [
        {"name": "gpu", "resourceClaimTemplateName": "t"},
        {"name": "other", "resourceClaimName": "c"},
    ],
    "initContainers": [{"name": "first", "image": "x", "restartPolicy": "Always"}],
    "containers": [
        {
            "name": "main",
            "image": "busybox",
            "ports": [{"name": "http", "containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1"}],
            "env": [
                {"name": "A", "value": "b"},
                {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
            ],
            "envFrom": [{"prefix": "P_", "secretRef": {"name": "s"}}],
            "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "a/b"}],
            "resources": {
                "limits": {"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"},
                "requests": {"cpu": "100m", "example.com/gpu": "1"},
                "claims": [{"name": "gpu", "request": "a"}, {"name": "other"}],
            },
            "livenessProbe": {
                "httpGet": {"path": "/", "port": 80, "httpHeaders": [{"name": "X", "value": ""}]}
            },
            "readinessProbe": {"exec": {"command": ["true"]}},
            "startupProbe": {"tcpSocket": {"port": "http"}},
            "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
        }
    ],
    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
    "nodeSelector": {"zone": "a"},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": _TERMS,
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": _TERMS["nodeSelectorTerms"][0]}
            ],
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}, "namespaces": ["x"]}
            ]
        },
    },
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2}
    ],
    "schedulingGates": [{"name": "example.com/wait"}],
    "readinessGates": [{"conditionType": "example.com/ready"}],
    "activeDeadlineSeconds": 60,
    "hostname": "it",
}
POD = _core(
    "v1",
    "Pod",
    spec=POD_SPEC,
    status={
        "phase": "Running",
        "qosClass": "Burstable",
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "example.com/x", "status": "True"}],
        "containerStatuses": [
            {
                "name": "main",
                "image": "x",
                "imageID": "",
                "ready": True,
                "restartCount": 0,
                "state": {"running": {}},
            }
        ],
        "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "made"}],
    },
)
_TEMPLATE_SPEC = {key: value for key, value in POD_SPEC.items() if key != "activeDeadlineSeconds"}
_POD_TEMPLATE: JsonObject = {"metadata": {"labels": {"a": "b"}}, "spec": _TEMPLATE_SPEC}
_SELECTOR: JsonObject = {
    "matchLabels": {"a": "b"},
    "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
}
_JOB_SPEC: JsonObject = {
    "template": {"metadata": {}, "spec": {**_TEMPLATE_SPEC, "restartPolicy": "Never"}},
    "completions": 2,
}
CORE = [
    POD,
    _core("apps/v1", "Deployment", spec={"replicas": 2, "selector": _SELECTOR, "template": _POD_TEMPLATE}),
    _core("apps/v1", "ReplicaSet", spec={"replicas": 2, "selector": _SELECTOR, "template": _POD_TEMPLATE}),
    _core("apps/v1", "DaemonSet", spec={"selector": _SELECTOR, "template": _POD_TEMPLATE}),
    _core(
        "apps/v1",
        "StatefulSet",
        spec={"replicas": 1, "serviceName": "s", "selector": _SELECTOR, "template": _POD_TEMPLATE},
    ),
    _core("batch/v1", "Job", spec=_JOB_SPEC),
    _core("batch/v1", "CronJob", spec={"schedule": "*/5 1-3 * jan mon", "jobTemplate": {"spec": _JOB_SPEC}}),
    _core("v1", "ConfigMap", data={"a": "b"}, binaryData={"c": "AA=="}, immutable=True),
    _core("v1", "Secret", type="Opaque", data={"a": "Yg=="}, stringData={"c": "d"}),
    _core("v1", "ServiceAccount", secrets=[{"name": "s"}]),
    _core("v1", "Event", involvedObject={"kind": "Pod", "name": "p", "namespace": "default"}, reason="R"),
    _core(
        "v1",
        "Node",
        spec={"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}], "providerID": "x"},
        status={"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}},
    ),
    _core("v1", "ResourceQuota", spec={"hard": {"pods": "4"}, "scopes": ["BestEffort"]}),
    _core("coordination.k8s.io/v1", "Lease", spec={"holderIdentity": "x", "leaseDurationSeconds": 15}),
    _core("scheduling.k8s.io/v1", "PriorityClass", value=5, preemptionPolicy="Never"),
    _core("policy/v1", "PodDisruptionBudget", spec={"minAvailable": "50%", "selector": _SELECTOR}),
    _core(
        "scheduling.k8s.io/v1alpha2",
        "PodGroup",
        spec={
            "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}},
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}],
        },
    ),
    _core(
        "scheduling.k8s.io/v1alpha2",
        "Workload",
        spec={
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "j"},
            "podGroupTemplates": [{"name": "t", "schedulingPolicy": {"basic": {}}}],
        },
    ),
]
