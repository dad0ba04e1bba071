"""Resource requests of pods."""

from dra_scheduler.framework.resources import amount, is_extended, pod_requests
from dra_shared.api.codec import convert
from dra_shared.api.pod import Pod
from dra_shared.api.resources import PODS
from dra_shared.jsontypes import JsonObject

from tests.support.cases import each_case


def _pod(containers: list[JsonObject], init: list[JsonObject] | None = None, **rest: object) -> Pod:
    def full(index: int, container: JsonObject) -> JsonObject:
        return {
            "name": f"c{index}",
            "resources": {"requests": container.get("requests", {})},
            "restartPolicy": container.get("restartPolicy", ""),
        }

    spec = {
        "containers": [full(i, c) for i, c in enumerate(containers)],
        "initContainers": [full(i, c) for i, c in enumerate(init or [])],
        **{key: value for key, value in rest.items() if key != "status"},
    }
    return convert(PODS, {"metadata": {"name": "p"}, "spec": spec, "status": rest.get("status", {})})


def test_cpu_is_counted_in_millicores_and_other_resources_in_units() -> None:
    assert amount("cpu", "100m") == 100
    assert amount("cpu", "1.0001") == 1001
    assert amount("memory", "1Ki") == 1024
    assert amount("memory", "1m") == 1


def test_requests_are_the_maximum_of_containers_and_each_init_container() -> None:
    pod = _pod(
        [{"requests": {"cpu": "1"}}, {"requests": {"cpu": "2", "memory": "1Ki"}}],
        [{"requests": {"cpu": "4"}}, {"requests": {"memory": "8Ki"}}],
    )
    assert pod_requests(pod) == {"cpu": 4000, "memory": 8192}


def test_requests_of_sidecars_are_added_to_those_of_containers() -> None:
    pod = _pod(
        [{"requests": {"cpu": "1"}}],
        [{"requests": {"cpu": "2"}, "restartPolicy": "Always"}, {"requests": {"cpu": "2"}}],
    )
    # The sidecar with the init container after it: 4; with the container: 3.
    assert pod_requests(pod) == {"cpu": 4000}


def test_overhead_and_pod_level_requests_are_counted() -> None:
    pod = _pod([{"requests": {"cpu": "1"}}], overhead={"cpu": "250m"}, resources={"requests": {"cpu": "3"}})
    assert pod_requests(pod) == {"cpu": 3250}
    assert pod_requests(pod, pod_level=False) == {"cpu": 1250}


def test_node_allocatable_resources_of_claims_are_added_to_requests() -> None:
    taken = [{"resourceClaimName": "c", "resources": {"cpu": "2"}}]
    pod = _pod([{"requests": {"cpu": "1"}}], status={"nodeAllocatableResourceClaimStatuses": taken})
    assert pod_requests(pod) == {"cpu": 3000}
    assert pod_requests(pod, claims=False) == {"cpu": 1000}


@each_case(
    ("name", "extended"),
    [
        ("cpu", False),
        ("memory", False),
        ("hugepages-2Mi", False),
        ("example.com/gpu", True),
        ("requests.example.com/gpu", False),
        ("kubernetes.io/thing", False),
        ("sub.kubernetes.io/thing", False),
        ("deviceclass.resource.kubernetes.io/gpu", True),
    ],
)
def test_names_of_extended_resources_are_recognized(name: str, extended: bool) -> None:
    assert is_extended(name) is extended
