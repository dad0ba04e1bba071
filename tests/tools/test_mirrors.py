"""Each folder of tests has the path of a package or a module."""

from tests.support.reference import REPOSITORY

_TESTS = REPOSITORY / "tests"
_PACKAGES = {
    "apiserver": "services/apiserver/dra_apiserver",
    "cli": "cli/dra_cli",
    "controller": "services/controller/dra_controller",
    "node_agent": "services/node-agent/dra_node_agent",
    "scheduler": "services/scheduler/dra_scheduler",
    "shared": "shared/dra_shared",
    "kube": "toolkit/dra_kube",
    "lab": "toolkit/dra_lab",
    "driverkit": "toolkit/dra_driverkit",
    "driver_conformance": "toolkit/dra_conformance",
    "testing": "toolkit/dra_testing",
    "tools": "tools",
    "worlds": "toolkit/dra_worlds",
}


def test_every_folder_of_tests_has_its_package() -> None:
    folders = {
        path.parent.relative_to(_TESTS) for name in _PACKAGES for path in (_TESTS / name).rglob("test_*.py")
    }
    packages = {
        folder: REPOSITORY.joinpath(_PACKAGES[folder.parts[0]], *folder.parts[1:]) for folder in folders
    }

    assert len(folders) > len(_PACKAGES)
    assert not [
        str(folder)
        for folder, package in packages.items()
        if not package.is_dir() and not package.with_suffix(".py").is_file()
    ]
