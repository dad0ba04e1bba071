import pytest
from dra_controller.deployment.rolling import (
    MAX,
    limits,
    new_replicas,
    old_replicas,
    scale_proportionally,
    scale_value,
)
from dra_shared.api.apps import (
    Deployment,
    DeploymentSpec,
    DeploymentStrategy,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicaSetStatus,
    RollingUpdateDeployment,
)
from dra_shared.api.meta import ObjectMeta


def _deployment(replicas: int, surge: int | str = "25%", unavailable: int | str = "25%") -> Deployment:
    rolling = RollingUpdateDeployment(max_surge=surge, max_unavailable=unavailable)
    strategy = DeploymentStrategy(type="RollingUpdate", rolling_update=rolling)
    return Deployment(spec=DeploymentSpec(replicas=replicas, strategy=strategy))


def _set(name: str, replicas: int, available: int = 0, most: int | None = None, age: str = "1") -> ReplicaSet:
    annotations = {MAX: str(most)} if most is not None else {}
    return ReplicaSet(
        metadata=ObjectMeta(name=name, uid=name, annotations=annotations, creation_timestamp=age),
        spec=ReplicaSetSpec(replicas=replicas),
        status=ReplicaSetStatus(available_replicas=available),
    )


@pytest.mark.parametrize(
    ("value", "whole", "up", "result"),
    [
        ("25%", 10, True, 3),
        ("25%", 10, False, 2),
        (3, 10, True, 3),
        (None, 10, True, 0),
        ("100%", 7, False, 7),
    ],
)
def test_percentages_are_scaled_and_rounded_up_or_down(
    value: int | str | None, whole: int, up: bool, result: int
) -> None:
    assert scale_value(value, whole, up=up) == result


@pytest.mark.parametrize(
    ("deployment", "result"),
    [
        (_deployment(4), (1, 1)),
        (_deployment(1), (1, 0)),
        (_deployment(3, 0, 0), (0, 1)),
        (_deployment(2, 0, 5), (0, 2)),
        (_deployment(0), (0, 0)),
    ],
)
def test_surge_and_unavailable_limits_of_a_deployment_are_resolved(
    deployment: Deployment, result: tuple[int, int]
) -> None:
    assert limits(deployment) == result


def test_the_new_replica_set_is_scaled_up_as_far_as_max_surge_allows() -> None:
    new, old = _set("new", 0), _set("old", 4, 4)
    assert new_replicas(_deployment(4, 1, 0), [old, new], new) == 1
    assert new_replicas(_deployment(4, "100%", 0), [old, new], new) == 4


def test_unready_pods_of_old_replica_sets_are_removed_first() -> None:
    new = _set("new", 1, 0)
    working, broken = _set("working", 3, 3), _set("broken", 2, 0)
    sizes = old_replicas(_deployment(4, 2, 1), [working, broken, new], new, [working, broken])
    assert sizes == {"working": 3, "broken": 0}


def test_old_pods_are_kept_while_new_ones_are_not_available() -> None:
    new, old = _set("new", 1, 0), _set("old", 4, 4)
    assert old_replicas(_deployment(4, 1, 0), [old, new], new, [old]) == {"old": 4}
    new = _set("new", 1, 1)
    assert old_replicas(_deployment(4, 1, 0), [old, new], new, [old]) == {"old": 3}


def test_scaling_during_a_rollout_is_distributed_proportionally() -> None:
    # kubernetes.io/docs/concepts/workloads/controllers/deployment: 10 to 15 replicas, surge 3
    deployment = _deployment(15, 3, 2)
    new, old = _set("new", 5, most=13, age="2"), _set("old", 8, most=13)
    assert scale_proportionally(deployment, [old, new]) == {"old": 11, "new": 7}
