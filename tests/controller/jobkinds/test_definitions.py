"""The definitions of the job kinds."""

import pytest
from dra_controller.jobkinds.definitions import install, read_definitions
from dra_controller.jobkinds.operators import OPERATORS, complete, parse_operators
from dra_shared.clock import SystemClock

from tests.controller.cluster import Cluster


async def test_the_definitions_of_all_job_kinds_can_be_installed_twice(cluster: Cluster) -> None:
    await install(cluster.client, OPERATORS, SystemClock())
    await install(cluster.client, OPERATORS, SystemClock())
    for operator in OPERATORS:
        for definition in read_definitions(operator):
            path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition['metadata']['name']}"
            stored = (await cluster.client.raw("GET", path)).json()
            assert "NonStructuralSchema" not in str(stored["status"]["conditions"])


def test_operator_names_are_parsed_and_completed_by_the_operators_that_they_need() -> None:
    assert parse_operators("trainer, lws,") == {"trainer", "jobset", "lws"}
    assert complete(()) == frozenset()
    with pytest.raises(ValueError, match='"kueue" is not one of jobset, lws, ray, mpi, trainer'):
        parse_operators("kueue")
