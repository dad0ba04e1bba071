"""Metrics of the DRA manager have the kubelet's names."""

from prometheus_client import REGISTRY, generate_latest

from tests.support.kubelet.bench import Bench, claim, pod
from tests.support.kubelet.fakedriver import FakeDriver
from tests.support.waiting import until


async def test_metrics_count_prepared_claims_and_calls_to_drivers() -> None:
    bench = Bench()
    async with FakeDriver("metrics-driver", registry=bench.registry, cdi=bench.cdi) as driver, bench:
        await driver.registered.get()
        bench.add_claim(claim("gpu", "pod", driver="metrics-driver"))
        bench.create(pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]))
        await until(lambda: bench.phase() == "Running")
        labels = {"driver_name": "metrics-driver"}
        assert REGISTRY.get_sample_value("dra_resource_claims_in_use", labels) == 1
        call = {
            **labels,
            "method_name": "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources",
            "grpc_status_code": "OK",
        }
        assert REGISTRY.get_sample_value("dra_grpc_operations_duration_seconds_count", call) == 1
        text = generate_latest().decode()
        assert (
            'dra_operations_duration_seconds_count{is_error="false",operation_name="PrepareResources"}'
            in text
        )
    assert REGISTRY.get_sample_value("dra_resource_claims_in_use", labels) is None
