"""Test the validation of jobs' policies and limits against kube-apiserver 1.36.2."""

from typing import Any

from dra_apiserver.kinds.batch.jobspec import check_job_spec
from dra_shared.jsontypes import JsonObject

POD: JsonObject = {
    "restartPolicy": "Never",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "containers": [
        {"name": "c", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"}
    ],
}
INDEXED: JsonObject = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}


def find_errors(**spec: Any) -> list[str]:
    return [str(error) for error in check_job_spec({"template": {"spec": POD}, **spec}, "spec")]


def failure(*rules: JsonObject) -> list[str]:
    path = "spec.podFailurePolicy."
    return [text.removeprefix(path) for text in find_errors(podFailurePolicy={"rules": list(rules)})]


def success(*rules: JsonObject) -> list[str]:
    path = "spec.successPolicy."
    return [text.removeprefix(path) for text in find_errors(**INDEXED, successPolicy={"rules": list(rules)})]


def test_a_plain_job_is_valid() -> None:
    assert find_errors() == []
    assert find_errors(**INDEXED, backoffLimitPerIndex=1, maxFailedIndexes=1) == []


def test_failures_are_counted_for_each_index_of_an_indexed_job() -> None:
    assert find_errors(maxFailedIndexes=1) == [
        "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
        "spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode",
    ]
    assert find_errors(**INDEXED, backoffLimitPerIndex=1, maxFailedIndexes=4) == [
        "spec.maxFailedIndexes: Invalid value: 4: must be less than or equal to completions"
    ]
    assert find_errors(completionMode="Indexed") == [
        "spec.completions: Required value: when completion mode is Indexed"
    ]


def test_rules_on_exit_codes_are_validated() -> None:
    codes = {"containerName": "d", "operator": "In", "values": [3, 0, 3]}
    path = "rules[0].onExitCodes"
    assert failure({"action": "FailIndex", "onExitCodes": codes}) == [
        'rules[0].action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set',
        f'{path}.containerName: Invalid value: "d": '
        "must be one of the container or initContainer names in the pod template",
        f"{path}.values[1]: Invalid value: 0: must not be 0 for the In operator",
        f"{path}.values[2]: Duplicate value: 3",
        f"{path}.values: Invalid value: [3,0,3]: must be ordered",
    ]
    assert failure({"action": "Fail"}) == [
        'rules[0].action: Unsupported value: "Fail": supported values: "Count", "FailIndex", "FailJob", "Ignore"',
        "rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
    ]
    assert failure({"onPodConditions": [{"type": "DisruptionTarget", "status": "Yes"}]}) == [
        'rules[0].action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]',
        'rules[0].onPodConditions[0].status: Unsupported value: "Yes": supported values: "False", "True", "Unknown"',
    ]


def test_success_policy_rules_cannot_require_more_indexes_than_completions() -> None:
    assert success({}) == [
        "rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified"
    ]
    assert success({"succeededIndexes": "0-3", "succeededCount": 4}) == [
        'rules[0].succeededIndexes: Invalid value: "0-3": error parsing succeededIndexes: too large index: "3"',
        "rules[0].succeededCount: Invalid value: 4: "
        "must be less than or equal to 3 (the number of specified completions)",
        "rules[0].succeededCount: Invalid value: 4: "
        "must be less than or equal to 0 (the number of indexes in the specified succeededIndexes field)",
    ]
    assert success({"succeededIndexes": "0-1", "succeededCount": 2}) == []


def test_a_failure_policy_requires_replacement_of_failed_pods_only() -> None:
    policy = {"rules": [{"action": "Count", "onExitCodes": {"operator": "In", "values": [1]}}]}
    assert find_errors(podFailurePolicy=policy, podReplacementPolicy="TerminatingOrFailed") == [
        'spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"'
    ]


def test_managed_by_of_a_job_must_be_a_domain_prefixed_path() -> None:
    assert find_errors(managedBy="me") == [
        'spec.managedBy: Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")'
    ]
    assert find_errors(managedBy="kueue.x-k8s.io/multikueue") == []
