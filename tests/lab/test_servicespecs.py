import contextlib
from pathlib import Path

import pytest
from dra_lab.clusteroptions import ClusterOptions
from dra_lab.protection import Protection
from dra_lab.servicespecs import ServiceSpecs
from dra_shared.clock import SPEED
from dra_shared.errors import UserError


def _specs(tmp_path: Path, options: ClusterOptions) -> ServiceSpecs:
    return ServiceSpecs(tmp_path, options, Protection(tmp_path / "auth", options.protection, []))


def _services(tmp_path: Path, *without: str) -> list[str]:
    return _specs(tmp_path, ClusterOptions(port=0, without=without)).names


def test_optional_services_can_be_left_out(tmp_path: Path) -> None:
    assert _services(tmp_path) == ["apiserver", "controller", "scheduler", "node-agent"]
    assert _services(tmp_path, "scheduler", "node-agent") == ["apiserver", "controller"]


def test_required_services_cannot_be_left_out(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--without apiserver: choose controller, scheduler, node-agent"):
        _services(tmp_path, "apiserver")


@pytest.mark.parametrize(
    ("gpus", "why"),
    [
        ("8xNope", "unknown GPU model 'Nope', known models: A100-SXM4-40GB, .*"),
        ("8xA100-SXM4-40GB:nope", "MIG layout 'nope': NVIDIA A100-SXM4-40GB knows whole, mig and .*"),
        ("33xA100-SXM4-40GB", "GPUs '33xA100-SXM4-40GB': a node has room for 32"),
    ],
)
def test_invalid_gpus_are_rejected_before_any_service_starts(tmp_path: Path, gpus: str, why: str) -> None:
    with pytest.raises(UserError, match=f"^{why}$"):
        _specs(tmp_path, ClusterOptions(port=0, gpus=gpus))


def test_a_missing_folder_of_gpu_models_is_rejected(tmp_path: Path) -> None:
    folder = str(tmp_path / "none")
    with pytest.raises(UserError, match="none is not a folder with GPU models"):
        _specs(tmp_path, ClusterOptions(port=0, gpu_models=[folder]))


def test_a_cluster_without_nodes_has_no_node_agent(tmp_path: Path) -> None:
    assert _specs(tmp_path, ClusterOptions(port=0, nodes=0)).names == ["apiserver", "controller", "scheduler"]


def test_several_api_servers_require_postgresql(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--apiservers needs a PostgreSQL"):
        _specs(tmp_path, ClusterOptions(port=0, nodes=0, apiservers=2))


def test_services_are_distributed_over_the_api_servers(tmp_path: Path) -> None:
    options = ClusterOptions(port=0, nodes=1, apiservers=3, database="postgresql://db/dralab")
    made = _specs(tmp_path, options)
    with contextlib.ExitStack() as stack:
        specs = {
            spec.name: (spec.port.url, list(spec.arguments)) for spec in made.all(stack, "http://127.0.0.1:1")
        }
    assert list(specs)[:3] == ["apiserver", "apiserver-2", "apiserver-3"]
    (one, _), (other, _) = specs["apiserver-2"], specs["apiserver-3"]
    found = []
    for name in ("controller", "scheduler", "node-agent"):
        words = specs[name][1]
        found.append(words[words.index("--read-server") + 1])
    assert found == [one, other, one]


def test_api_servers_on_postgresql_have_equal_arguments(tmp_path: Path) -> None:
    options = ClusterOptions(port=0, nodes=0, apiservers=2, database="postgresql://db/dralab")
    made = _specs(tmp_path, options)
    with contextlib.ExitStack() as stack:
        first, second, *_ = (spec.arguments for spec in made.all(stack, "http://127.0.0.1:1"))
    assert first == second


@pytest.mark.parametrize(
    ("variable", "given", "others"),
    [
        (
            "DRALAB_APISERVER_AUDIT_LOG_PATH",
            "/x/audit.log",
            ["/x/audit.apiserver-2.log", "/x/audit.apiserver-3.log"],
        ),
        ("DRALAB_AUDIT_LOG_PATH", "/x/audit", ["/x/audit.apiserver-2", "/x/audit.apiserver-3"]),
        ("DRALAB_APISERVER_AUDIT_LOG_PATH", "-", [None, None]),
        ("DRALAB_APISERVER_ACCESS_LOG", "true", [None, None]),
    ],
)
def test_each_api_server_has_its_own_audit_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, given: str, others: list[str | None]
) -> None:
    monkeypatch.setenv(variable, given)
    made = _specs(tmp_path, ClusterOptions(port=0, nodes=0, apiservers=3, database="postgresql://db/dralab"))
    with contextlib.ExitStack() as stack:
        specs = made.all(stack, "http://127.0.0.1:1")
    found = [spec.environment.get("DRALAB_APISERVER_AUDIT_LOG_PATH") for spec in specs]
    assert found == [None, *others, None, None]


def test_a_token_is_required_by_default_with_the_docker_runtime() -> None:
    assert not ClusterOptions().needs_token
    assert ClusterOptions(runtime="docker").needs_token
    assert not ClusterOptions(runtime="docker", anonymous_auth=True).needs_token
    assert ClusterOptions(anonymous_auth=False).needs_token


def test_speed_and_grace_are_passed_to_the_services(tmp_path: Path) -> None:
    made = _specs(tmp_path, ClusterOptions(nodes=1, port=0, speed=10, grace=0))
    with contextlib.ExitStack() as stack:
        specs = made.all(stack, "http://127.0.0.1:1")
        (speed,) = {spec.environment[SPEED] for spec in specs}
        agent = next(spec.arguments for spec in specs if spec.name == "node-agent")
    assert speed.startswith("10@")
    assert list(agent)[list(agent).index("--most-grace") + 1] == "0"


@pytest.mark.parametrize("relaxed", [True, False])
def test_the_relaxed_option_also_applies_to_checkpoints_of_node_agents(tmp_path: Path, relaxed: bool) -> None:
    made = _specs(tmp_path, ClusterOptions(nodes=1, port=0, relaxed=relaxed))
    with contextlib.ExitStack() as stack:
        specs = made.all(stack, "http://127.0.0.1:1")
        relaxing = {spec.name: "--relaxed" in spec.arguments for spec in specs}
    assert relaxing["apiserver"] is relaxing["node-agent"] is relaxed


def test_node_agents_get_the_options_for_strict_images_and_image_files(tmp_path: Path) -> None:
    file = tmp_path / "images.yaml"
    made = _specs(tmp_path, ClusterOptions(port=0, images=(file,), strict_images=True))
    with contextlib.ExitStack() as stack:
        specs = made.all(stack, "http://127.0.0.1:1")
        agent = list(next(spec.arguments for spec in specs if spec.name == "node-agent"))
    given = [agent[place + 1] for place, word in enumerate(agent) if word == "--images"]
    assert given == ["strict", str(file)]
