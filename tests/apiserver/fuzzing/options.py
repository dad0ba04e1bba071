"""The names, media types, query options and paths that random requests are made of."""

NAMESPACES = [*["default"] * 20, "kube-system", "none"]
ODD_NAMES = ["", "x" * 300, "A_B", "..", "a/b", "%00", "é", "a:b", " "]
WRITES = ["application/json", "application/json", "application/yaml"]
ODD_TYPES = [
    "application/vnd.kubernetes.protobuf",
    "text/plain",
    "application/json;charset=x",
    "*/*",
    "",
    ";",
    "application/cbor",
]
PATCHES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
ACCEPTS = [
    "application/json",
    "",
    "*/*",
    "application/yaml",
    TABLE,
    PARTIAL,
    f"{TABLE},application/json",
    "application/vnd.kubernetes.protobuf, */*",
    "text/html",
    "application/json;as=x",
    ",",
    ";q=x",
]
NUMBERS = ["0", "1", "2", "-1", "x", "", "9" * 5000, "9223372036854775808", "1.5", "0x1", "+1", "٣"]
FLAGS = ["true", "false", "1", "", "x"]
TOKENS = [
    "",
    "x",
    "[]",
    "e30",
    "W10",
    "bnVsbA",
    "W1tbW1tb",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ",
    "eyJydiI6W119",
    "9" * 100,
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MX0",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOltdfQ",
]
OPTIONS: dict[str, list[str]] = {
    "dryRun": ["All", "", "x"],
    "fieldManager": ["me", "", "x" * 200, "\x00"],
    "fieldValidation": ["Strict", "Warn", "Ignore", "x"],
    "force": FLAGS,
    "pretty": FLAGS,
    "limit": NUMBERS,
    "continue": TOKENS,
    "resourceVersion": NUMBERS,
    "resourceVersionMatch": ["Exact", "NotOlderThan", "", "x"],
    "timeoutSeconds": NUMBERS,
    "labelSelector": [
        "a=b",
        "a in (b,c)",
        "!a",
        "a>1",
        "a>" + "9" * 5000,
        "a=(",
        ",",
        "x" * 300,
        "a in ()",
        "\x00",
    ],
    "fieldSelector": [
        "metadata.name=a",
        "metadata.namespace!=x",
        "spec.nodeName=",
        "x=y",
        "=",
        "a",
        "metadata.name==\\",
    ],
    "sendInitialEvents": FLAGS,
    "allowWatchBookmarks": FLAGS,
    "gracePeriodSeconds": NUMBERS,
    "propagationPolicy": ["Orphan", "Background", "Foreground", "x"],
    "orphanDependents": FLAGS,
    "ignoreStoreReadErrorWithClusterBreakingPotential": FLAGS,
    "container": ["main", "", "x"],
    "tailLines": NUMBERS,
    "limitBytes": NUMBERS,
    "sinceSeconds": NUMBERS,
    "sinceTime": ["x", "2026-01-01T00:00:00Z"],
    "follow": ["false", "x"],
    "previous": FLAGS,
    "includeObject": ["None", "Metadata", "Object", "x"],
    "watch": ["false", "0", "true"],
}
POINTERS = [
    "/metadata/labels",
    "/spec",
    "/metadata/name",
    "/status",
    "",
    "/",
    "/metadata/finalizers/-",
    "x",
    "/spec/containers/0",
    "/data/a",
    "/metadata/managedFields/0",
    "/a/" + "9" * 5000,
]
BODIES = {
    "binding": "io.k8s.api.core.v1.Binding",
    "eviction": "io.k8s.api.policy.v1.Eviction",
    "scale": "io.k8s.api.autoscaling.v1.Scale",
    "token": "io.k8s.api.authentication.v1.TokenRequest",
}
DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
# Objects that make the server call other servers, or reject every request, are not stored.
DRY_GROUPS = frozenset({"admissionregistration.k8s.io", "apiregistration.k8s.io"})
PAGES = [
    "/",
    "/api",
    "/apis",
    "/version",
    "/healthz",
    "/readyz?verbose",
    "/livez/etcd",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/apis/apps",
    "/apis/apps/v1",
    "/api/v1/",
    "/apis/x/v1/a",
    "/api/v1/none",
    "/apis/resource.k8s.io/v1/",
    "//",
    "/api/v1/namespaces//pods",
    "/api/v1/watch/pods",
    "/%ff",
]
