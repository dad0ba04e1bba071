"""A dralab driver as a separate process: tests without a cluster."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from dra_driverkit.directories import Directories
from dra_driverkit.program import Surroundings
from dra_node_agent import standalone
from dra_shared.api.resources import NODES

from tests.support.fakeapi import FakeApi
from tests.support.sameprocess import same_process
from tests.support.waiting import until


def test_the_driver_name_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        standalone.main([])
    assert ended.value.code == 2
    assert "dralab-driver" in capsys.readouterr().err


def test_options_of_a_driver_are_those_of_kubeletplugin(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        standalone.main(["gpu.example.com", "--help"], {})
    assert "--kubelet-registrar-directory-path" in capsys.readouterr().out


def test_the_directory_options_must_belong_to_one_kubelet(tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]\n"
        "contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
    )
    words = ["gpu.example.com", "--node-name", "n", "--kubeconfig", str(config), "--cdi-root", str(tmp_path)]
    folders = [
        "--kubelet-plugins-directory-path", str(tmp_path / "a" / "plugins"),
        "--kubelet-registrar-directory-path", str(tmp_path / "b" / "plugins_registry"),
    ]  # fmt: skip
    with same_process():
        assert standalone.main([*words, *folders], {}) != 0


@pytest.mark.system
async def test_an_instance_with_a_pod_uid_has_separate_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, --pod-uid was ignored, and during an update the new instance used the sockets of the old one."""
    served: list[Callable[[Surroundings], Awaitable[None]]] = []
    monkeypatch.setattr(standalone, "run", lambda name, serve, *_: served.append(serve))
    standalone.main(["gpu.example.com"], {})
    api = FakeApi()
    api.put(NODES, {"metadata": {"name": "node-0", "uid": "node-uid"}})
    names = {"gpu.example.com-uid-7-reg.sock", "dra-uid-7.sock"}
    with tempfile.TemporaryDirectory(prefix="d", dir="/tmp") as folder:
        root = Path(folder)
        directories = Directories.below("gpu.example.com", root / "k", root / "cdi")
        async with api.client() as client:
            serving = asyncio.ensure_future(served[0](Surroundings("node-0", directories, client, "uid-7")))
            await until(lambda: serving.done() or names == {path.name for path in root.rglob("*.sock")})
            assert not serving.done()
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


def test_the_directories_do_not_depend_on_the_path_of_the_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, the plugin directory was created below the directory of the profile."""
    names: list[str] = []

    def run(name: str, *_: object) -> int:
        names.append(name)
        return 0

    monkeypatch.setattr(standalone, "run", run)
    assert standalone.main(["examples/drivers/nic.yaml"], {}) == 0
    assert names == ["nic.yaml"]
