"""A lesson is evaluated once its pods are at rest."""

import pytest
from dra_lab.learn.world import World
from dra_shared.jsontypes import JsonObject

_WAITS = {"conditions": [{"type": "PodScheduled", "status": "False"}]}


def _world(pod: JsonObject, claims: tuple[str, ...] = (), templates: tuple[str, ...] = ("t",)) -> World:
    objects: dict[str, dict[str, JsonObject]] = {
        "pods": {"p": {"metadata": {"name": "p"}, **pod}},
        "claims": {name: {} for name in claims},
        "templates": {name: {} for name in templates},
    }
    return World(objects)


_SPEC = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}


@pytest.mark.parametrize(
    ("status", "claims", "rests"),
    [
        (_WAITS, (), False),
        ({**_WAITS, "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "made"}]}, (), False),
        (
            {**_WAITS, "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "made"}]},
            ("made",),
            True,
        ),
        ({**_WAITS, "resourceClaimStatuses": [{"name": "gpu"}]}, (), True),
        ({"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "made"}]}, ("made",), False),
    ],
    ids=["no claim yet", "claim not listed yet", "unschedulable", "no claim needed", "not tried yet"],
)
def test_a_pod_is_at_rest_once_the_scheduler_has_tried_it_with_its_claims(
    status: JsonObject, claims: tuple[str, ...], rests: bool
) -> None:
    assert _world({"spec": _SPEC, "status": status}, claims).at_rest is rests


def test_a_pod_whose_claim_template_is_missing_is_at_rest() -> None:
    assert _world({"spec": _SPEC, "status": {}}, templates=()).at_rest
