"""Defaults that depend on other fields."""

import pytest
from dra_scheduler.componentconfig.decode import decode
from dra_scheduler.componentconfig.defaults import set_defaults
from dra_shared.features import FeatureGates

_HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.mark.parametrize(
    ("yaml", "profiling", "contention"),
    [
        ("", True, True),
        ("enableProfiling: true", True, True),
        ("enableProfiling: false", False, False),
        ("enableContentionProfiling: false", True, False),
        ("enableProfiling: false\nenableContentionProfiling: true", False, True),
    ],
)
def test_contention_profiling_defaults_to_the_value_of_profiling(
    yaml: str, profiling: bool, contention: bool
) -> None:
    config = decode(f"{_HEAD}{yaml}\n")
    set_defaults(config, FeatureGates())
    assert (config.enable_profiling, config.enable_contention_profiling) == (profiling, contention)
