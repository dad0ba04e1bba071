"""Decoding of a configuration file, and the error messages."""

import pytest
from dra_scheduler.componentconfig.decode import decode
from dra_scheduler.componentconfig.gojson import DecodeError
from dra_scheduler.plugins.profiles import load
from dra_shared.features import FeatureGates

_HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def test_duplicate_keys_are_rejected_in_yaml_and_json() -> None:
    with pytest.raises(DecodeError, match=r'line 5: key "parallelism" already set in map'):
        decode(_HEAD + "parallelism: 1\nextenders: []\nparallelism: 2\n")
    head = '"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"'
    with pytest.raises(DecodeError) as caught:
        decode(f'{{{head}, "leaderElection": {{"leaderElect": true, "leaderElect": false}}, "x": 1}}')
    expected = 'strict decoding error: duplicate field "leaderElection.leaderElect", unknown field "x"'
    assert str(caught.value) == expected


def test_an_integer_may_have_a_zero_fraction_only_in_yaml() -> None:
    assert decode(_HEAD + "parallelism: 3.0\n").parallelism == 3
    with pytest.raises(DecodeError, match=r"cannot unmarshal number 3\.5 into Go struct field"):
        decode(_HEAD + "parallelism: 3.5\n")


def test_unknown_fields_of_several_plugins_are_reported_together() -> None:
    args = "{name: %s, args: {foo: 1}}"
    plugins = ", ".join(args % name for name in ("DynamicResources", "VolumeBinding"))
    with pytest.raises(DecodeError) as caught:
        decode(f"{_HEAD}bar: 1\nprofiles: [{{pluginConfig: [{plugins}]}}]\n")
    assert str(caught.value) == (
        'strict decoding error: unknown field "bar", '
        "decoding .profiles[0].pluginConfig[0]: strict decoding error: "
        'decoding args for plugin DynamicResources: strict decoding error: unknown field "foo", '
        "decoding .profiles[0].pluginConfig[1]: strict decoding error: "
        'decoding args for plugin VolumeBinding: strict decoding error: unknown field "foo"'
    )


def test_all_errors_of_a_configuration_are_reported_in_one_message() -> None:
    with pytest.raises(ValueError, match=r"^\[parallelism: .*, podInitialBackoffSeconds: .*\]$"):
        load(_HEAD + "parallelism: 0\npodInitialBackoffSeconds: 0\n", FeatureGates())


def test_resources_that_an_extender_manages_are_ignored_by_the_scheduler() -> None:
    extender = "{urlPrefix: http://127.0.0.1:1, managedResources: [{name: example.com/foo, ignoredByScheduler: true}]}"
    (profile,) = load(f"{_HEAD}extenders: [{extender}]\n", FeatureGates()).profiles
    assert profile.args["NodeResourcesFit"].ignored_resources == ["example.com/foo"]
