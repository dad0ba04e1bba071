"""Compare tables with recorded ones, and check the cells of kinds that clients show most."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from dra_apiserver.common.cells import selector_text, shorten_list
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kinds import catalog
from dra_apiserver.tables import partial_metadata_list, table
from dra_shared.durations import human_duration
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_34, V1_35, Version

from tests.support.cases import each_case
from tests.support.reference import reference_path
from tests.support.somekinds import widget

REGISTRY = catalog.registry("api/all=true")
NOW = datetime(2026, 11, 20, 15, 25, 42, tzinfo=UTC)


def show(group: str, plural: str, *items: JsonObject, **options: Any) -> JsonObject:
    kind = REGISTRY.get(group, plural)
    assert kind is not None
    return table(kind, kind.versions[0], items, metadata={"resourceVersion": "1"}, now=NOW, **options)


def cells(group: str, plural: str, item: JsonObject) -> list[Any]:
    row: list[Any] = show(group, plural, item)["rows"][0]["cells"]
    return row


def test_claims_are_shown_as_recorded() -> None:
    expected = json.loads(reference_path("golden", "e2e", "67-table-claims.json").read_text())
    claim = json.loads(reference_path("golden", "e2e", "60-claim.json").read_text())
    made = show("resource.k8s.io", "resourceclaims", claim)
    for column in expected["columnDefinitions"] + made["columnDefinitions"]:
        column["description"] = ""
    assert made["columnDefinitions"] == expected["columnDefinitions"]
    assert made["rows"][0]["cells"] == expected["rows"][0]["cells"]
    del expected["rows"][0]["object"]["metadata"]["managedFields"]
    assert made["rows"][0]["object"] == expected["rows"][0]["object"]


@each_case("kind", catalog.KINDS, ids=lambda kind: kind.qualified_name)
def test_every_row_has_a_cell_for_each_column(kind: Kind) -> None:
    for printer in (*kind.printers.values(), *kind.older_printers.values()):
        assert len(printer.cells({"metadata": {"name": "x"}}, NOW)) == len(printer.columns)


def test_pod_groups_show_why_they_are_not_scheduled() -> None:
    group: JsonObject = {
        "metadata": {"name": "g", "creationTimestamp": "2026-11-20T15:24:42Z"},
        "spec": {
            "podGroupTemplateRef": {"workload": {"workloadName": "train"}},
            "schedulingPolicy": {"gang": {"minCount": 2}},
        },
    }
    assert cells("scheduling.k8s.io", "podgroups", group) == ["g", "Gang", "train", "Pending", "60s"]
    group["status"] = {"conditions": [{"type": "PodGroupScheduled", "reason": "Unschedulable"}]}
    del group["spec"]["podGroupTemplateRef"]
    assert cells("scheduling.k8s.io", "podgroups", group) == ["g", "Gang", "<none>", "Unschedulable", "60s"]
    scheduled = {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled"}
    group["status"] = {"conditions": [scheduled]}
    assert cells("scheduling.k8s.io", "podgroups", group) == ["g", "Gang", "<none>", "Scheduled", "60s"]
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    group["status"] = {"conditions": [scheduled, disrupted]}
    assert cells("scheduling.k8s.io", "podgroups", group)[3] == "PreemptionByScheduler"


def list_columns(version: Version, group: str, plural: str) -> list[str]:
    kind = catalog.registry("api/all=true", kubernetes=version).get(group, plural)
    assert kind is not None
    return [column.name for column in kind.printers[""].columns]


@pytest.mark.parametrize(
    ("kind", "removed", "added"),
    [
        (("", "serviceaccounts"), {"Secrets"}, set()),
        (("certificates.k8s.io", "podcertificaterequests"), set(), {"UnverifiedUserAnnotations"}),
        (("storagemigration.k8s.io", "storageversionmigrations"), set(), {"Status"}),
    ],
)
def test_table_columns_differ_between_kubernetes_versions_as_upstream(
    kind: tuple[str, str], removed: set[str], added: set[str]
) -> None:
    old, new = (set(list_columns(version, *kind)) for version in (V1_34, V1_35))
    assert (old - new, new - old) == (removed, added)


def test_pod_certificate_requests_show_their_last_state() -> None:
    request: JsonObject = {
        "metadata": {"name": "r"},
        "spec": {"podName": "p", "serviceAccountName": "s", "nodeName": "n", "signerName": "a/b"},
    }
    key = ("certificates.k8s.io", "podcertificaterequests")
    assert cells(*key, request) == ["r", "p", "s", "n", "a/b", "Pending", "<none>"]
    request["status"] = {"conditions": [{"type": "Issued", "status": "True"}]}
    assert cells(*key, request)[5] == "Issued"


def test_storage_migrations_show_their_state() -> None:
    migration: JsonObject = {
        "metadata": {"name": "m"},
        "spec": {"resource": {"group": "apps", "resource": "deployments"}},
        "status": {
            "conditions": [{"type": "Running", "status": "False"}, {"type": "Succeeded", "status": "True"}]
        },
    }
    key = ("storagemigration.k8s.io", "storageversionmigrations")
    assert cells(*key, migration) == ["m", "deployments.apps", "Succeeded"]


def test_pool_status_requests_show_sums_over_their_pools() -> None:
    request: JsonObject = {"metadata": {"name": "q"}, "spec": {"driver": "gpu.example.com"}}
    key = ("resource.k8s.io", "resourcepoolstatusrequests")
    none = ["-", "-", "-", "-", "-"]
    assert cells(*key, request) == ["q", "gpu.example.com", *none, 0, "Pending", "<none>"]
    pools = [
        {"totalDevices": 8, "availableDevices": 5, "allocatedDevices": 2, "unavailableDevices": 1},
        {"totalDevices": 4, "validationError": "slices are missing"},
    ]
    done = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-11-20T15:24:42Z"}
    request["status"] = {"poolCount": 3, "pools": pools, "conditions": [done]}
    sums = ["12", "5", "2", "1", "1"]
    assert cells(*key, request) == ["q", "gpu.example.com", *sums, 3, "Complete (2/3 pools)", "60s"]
    request["status"]["conditions"] = [{"type": "Failed", "status": "True"}]
    assert cells(*key, request) == ["q", "gpu.example.com", *none, 3, "Failed", "<none>"]


def test_kinds_without_columns_show_when_they_were_created() -> None:
    made = show("rbac.authorization.k8s.io", "roles", {"metadata": {"name": "r", "creationTimestamp": "T"}})
    assert [column["name"] for column in made["columnDefinitions"]] == ["Name", "Created At"]
    assert made["rows"][0]["cells"] == ["r", "T"]


def pod(**status: Any) -> JsonObject:
    return {
        "metadata": {"name": "p", "creationTimestamp": "2026-11-20T15:24:42Z"},
        "spec": {"nodeName": "n1", "containers": [{"name": "a"}, {"name": "b"}]},
        "status": status,
    }


@pytest.mark.parametrize(
    ("status", "ready", "reason", "restarts"),
    [
        ({"phase": "Pending"}, "0/2", "Pending", "0"),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    {"name": "a", "ready": True, "restartCount": 0, "state": {"running": {}}},
                    {
                        "name": "b",
                        "ready": False,
                        "restartCount": 3,
                        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                        "lastState": {"terminated": {"finishedAt": "2026-11-20T15:25:12Z"}},
                    },
                ],
            },
            "1/2",
            "CrashLoopBackOff",
            "3 (30s ago)",
        ),
        (
            {
                "phase": "Failed",
                "containerStatuses": [{"name": "a", "state": {"terminated": {"exitCode": 3}}}],
            },
            "0/2",
            "ExitCode:3",
            "0",
        ),
        (
            {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]},
            "0/2",
            "SchedulingGated",
            "0",
        ),
        (
            {"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]},
            "0/2",
            "Init:0/0",
            "0",
        ),
    ],
)
def test_pod_rows_show_status_and_restarts(
    status: JsonObject, ready: str, reason: str, restarts: str
) -> None:
    assert cells("", "pods", pod(**status)) == [
        "p",
        ready,
        reason,
        restarts,
        "60s",
        "<none>",
        "n1",
        "<none>",
        "<none>",
    ]


def test_rows_of_finished_pods_have_a_condition() -> None:
    row = show("", "pods", pod(phase="Succeeded"))["rows"][0]
    assert row["conditions"][0]["reason"] == "Succeeded"


def test_a_deleted_running_pod_is_shown_as_terminating() -> None:
    dying = pod(phase="Running")
    dying["metadata"]["deletionTimestamp"] = "2026-11-20T15:25:00Z"
    assert cells("", "pods", dying)[2] == "Terminating"


def test_the_state_of_a_claim_is_shown() -> None:
    def state(claim: JsonObject) -> Any:
        return cells("resource.k8s.io", "resourceclaims", claim)[1]

    assert state({"metadata": {}, "status": {}}) == "pending"
    assert state({"metadata": {}, "status": {"allocation": {}}}) == "allocated"
    assert (
        state({"metadata": {"deletionTimestamp": "T"}, "status": {"allocation": {}}}) == "deleted,allocated"
    )


def test_event_rows_are_equal_in_both_api_groups() -> None:
    core = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p"},
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": "no",
        "eventTime": "2026-11-20T15:25:40Z",
        "reportingComponent": "default-scheduler",
        "reportingInstance": "host",
    }
    grouped = {
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p"},
        "type": "Warning",
        "reason": "FailedScheduling",
        "note": "no",
        "eventTime": "2026-11-20T15:25:40Z",
        "reportingController": "default-scheduler",
        "reportingInstance": "host",
    }
    expected = [
        "2s",
        "Warning",
        "FailedScheduling",
        "pod/p",
        "",
        "default-scheduler, host",
        "no",
        "2s",
        1,
        "e",
    ]
    assert cells("", "events", core) == expected
    assert cells("events.k8s.io", "events", grouped) == expected


def test_rows_have_the_requested_object() -> None:
    item = {"metadata": {"name": "x"}, "data": {"a": "b"}}
    assert show("", "configmaps", item, include_object="None")["rows"][0]["object"] is None
    assert show("", "configmaps", item, include_object="Object")["rows"][0]["object"] is item
    assert show("", "configmaps", item)["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert show("", "configmaps", item, headers=False)["columnDefinitions"] is None


def test_partial_metadata_lists_have_only_metadata() -> None:
    made = partial_metadata_list([{"metadata": {"name": "x"}, "spec": {}}], {"resourceVersion": "7"})
    assert made["kind"] == "PartialObjectMetadataList"
    assert made["metadata"] == {"resourceVersion": "7"}
    assert made["items"] == [
        {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "x"}}
    ]


@each_case(
    ("duration", "text"),
    [
        (timedelta(seconds=-5), "<invalid>"),
        (timedelta(seconds=-0.5), "0s"),
        (timedelta(seconds=119), "119s"),
        (timedelta(seconds=121), "2m1s"),
        (timedelta(minutes=3), "3m"),
        (timedelta(minutes=90), "90m"),
        (timedelta(hours=4, minutes=5), "4h5m"),
        (timedelta(hours=30), "30h"),
        (timedelta(days=3, hours=2), "3d2h"),
        (timedelta(days=100), "100d"),
        (timedelta(days=800), "2y70d"),
        (timedelta(days=4000), "10y"),
    ],
)
def test_ages_are_shown_with_at_most_two_units(duration: timedelta, text: str) -> None:
    assert human_duration(duration.total_seconds()) == text


def test_long_lists_in_a_table_cell_are_truncated() -> None:
    assert shorten_list(["a", "b", "c", "d", "e"]) == "a,b,c + 2 more..."
    assert shorten_list([]) == "<unset>"


def test_selectors_are_shown_as_users_type_them() -> None:
    selector = {
        "matchLabels": {"app": "x"},
        "matchExpressions": [{"key": "t", "operator": "In", "values": ["b", "a"]}],
    }
    assert selector_text(selector) == "app=x,t in (a,b)"
    assert selector_text({}) == "<none>"


def test_custom_columns_show_the_value_at_their_json_path() -> None:
    size = {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1}
    kind = widget({"type": "object"}, additionalPrinterColumns=[size])
    item = {"metadata": {"name": "w"}, "spec": {"size": 3, "items": [{"name": "a"}, {"name": "b"}]}}
    made = table(kind, "v1", [item], metadata={}, now=NOW)
    assert made["rows"][0]["cells"] == ["w", 3]
    assert made["columnDefinitions"][1]["priority"] == 1


def test_a_nodes_kernel_is_shown_with_its_architecture() -> None:
    info = {"kernelVersion": "6.1", "architecture": "amd64"}
    assert cells("", "nodes", {"metadata": {"name": "n"}, "status": {"nodeInfo": info}})[8] == "6.1 (amd64)"


def test_rows_of_workloads_show_their_age() -> None:
    assert [column["name"] for column in show("scheduling.k8s.io", "workloads")["columnDefinitions"]] == [
        "Name",
        "Age",
    ]
