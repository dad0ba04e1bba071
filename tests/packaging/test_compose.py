"""``docker-compose.yml``, checked against the Compose specification because no engine is available."""

import re
from typing import Any

import jsonschema
import pytest
import yaml
from dra_apiserver.storage.catalog import Database, engine
from dra_shared.features import with_defaults
from dra_shared.serviceversions import LAB_GATES

from tests.support.reference import REPOSITORY

_DURATION = {"type": "string", "pattern": r"^(\d+(us|ms|s|m|h))+$"}
_STRINGS = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
_ENVIRONMENT = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}}
_SERVICE = {
    "type": "object",
    "required": ["image", "build", "healthcheck"],
    "additionalProperties": False,
    "properties": {
        "image": {"type": "string"},
        "build": {
            "type": "object",
            "additionalProperties": False,
            "required": ["context", "dockerfile"],
            "properties": {"context": {"type": "string"}, "dockerfile": {"type": "string"}},
        },
        "command": _STRINGS,
        "ports": {"type": "array", "items": {"type": "string"}},
        "volumes": _STRINGS,
        "environment": _ENVIRONMENT,
        "depends_on": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["condition"],
                "properties": {
                    "condition": {
                        "enum": ["service_started", "service_healthy", "service_completed_successfully"]
                    },
                    "restart": {"type": "boolean"},
                    "required": {"type": "boolean"},
                },
                "additionalProperties": False,
            },
        },
        "healthcheck": {
            "type": "object",
            "additionalProperties": False,
            "required": ["test"],
            "properties": {
                "test": {
                    "type": "array",
                    "prefixItems": [{"enum": ["CMD", "CMD-SHELL", "NONE"]}],
                    "minItems": 1,
                },
                "interval": _DURATION,
                "timeout": _DURATION,
                "start_period": _DURATION,
                "retries": {"type": "integer"},
            },
        },
        "restart": {"enum": ["no", "always", "on-failure", "unless-stopped"]},
        "read_only": {"type": "boolean"},
        "tmpfs": _STRINGS,
        "user": {"type": "string"},
        "hostname": {"type": "string"},
    },
}
_FILE = {
    "type": "object",
    "additionalProperties": False,
    "patternProperties": {"^x-": {}},
    "properties": {
        "name": {"type": "string"},
        "services": {"type": "object", "additionalProperties": _SERVICE},
        "volumes": {"type": "object", "additionalProperties": {"type": ["object", "null"]}},
    },
    "required": ["services"],
}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text())
    return loaded


def test_docker_compose_yml_matches_the_compose_specification(compose: dict[str, Any]) -> None:
    jsonschema.validate(compose, _FILE)


def test_every_service_has_its_own_image(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert set(services) == {"apiserver", "scheduler", "controller", "node-agent"}
    assert len({service["image"] for service in services.values()}) == len(services)
    for name, service in services.items():
        assert service["build"] == {"context": ".", "dockerfile": f"services/{name}/Dockerfile"}


def test_all_other_services_wait_for_a_healthy_api_server(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        if name != "apiserver":
            assert service["depends_on"] == {"apiserver": {"condition": "service_healthy"}}


def test_the_api_is_published_only_on_loopback(compose: dict[str, Any]) -> None:
    ports = {name: service.get("ports", []) for name, service in compose["services"].items()}
    assert ports.pop("apiserver") == ["127.0.0.1:${DRALAB_PORT:-8080}:8080"]
    assert not any(ports.values())


def test_the_database_is_on_a_declared_volume(compose: dict[str, Any]) -> None:
    (mount,) = compose["services"]["apiserver"]["volumes"]
    volume, path = mount.split(":")
    assert volume in compose["volumes"]
    dockerfile = (REPOSITORY / "services/apiserver/Dockerfile").read_text()
    assert f'"--data", "{path}"' in dockerfile


def test_node_agents_can_be_scaled(compose: dict[str, Any]) -> None:
    agent = compose["services"]["node-agent"]
    assert not {"container_name", "hostname", "ports"} & agent.keys()


def test_every_environment_variable_is_an_option_of_its_service(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        package = f"dra_{name.replace('-', '_')}"
        source = (
            "".join(path.read_text() for path in (REPOSITORY / "services" / name / package).glob("*.py"))
            + (REPOSITORY / "shared/dra_shared/service.py").read_text()
        )
        for variable in service.get("environment", {}):
            prefix = rf"^DRALAB_({name.replace('-', '_').upper()}_)?"
            flag = "--" + re.sub(prefix, "", variable).lower().replace("_", "-")
            assert f'"{flag}"' in source, f"{name} has no option {flag} for {variable}"


def test_containers_have_the_feature_gates_that_dralab_up_sets(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert service["environment"]["DRALAB_FEATURE_GATES"] == with_defaults(LAB_GATES, "")


def test_health_checks_are_lists_of_words(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        command = service["healthcheck"]["test"]
        assert command[:4] == ["CMD", "python3", "-m", "dra_shared.health"], name
        assert all(re.fullmatch(r"[\w./:-]+", word) for word in command)


def test_docker_compose_postgresql_yml_extends_docker_compose_yml() -> None:
    plain = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text())
    more = yaml.safe_load((REPOSITORY / "docker-compose.postgresql.yml").read_text())
    services = {**plain["services"], **more["services"]}
    volumes = {*plain["volumes"], *more["volumes"]}
    servers = [service for name, service in more["services"].items() if name.startswith("apiserver")]
    assert len(servers) == 2
    for service in more["services"].values():
        assert set(service.get("depends_on", ())) <= services.keys()
        assert {volume.partition(":")[0] for volume in service.get("volumes", ())} <= volumes
    for service in servers:
        environment = service["environment"]
        # The settings in both files are equal, so that both servers serve the same.
        shared = environment.keys() & plain["services"]["apiserver"]["environment"].keys()
        assert {"DRALAB_APISERVER_RUNTIME_CONFIG", "DRALAB_FEATURE_GATES"} <= shared
        for name in shared - {"DRALAB_ALLOWED_HOSTS"}:
            assert environment[name] == plain["services"]["apiserver"]["environment"][name]
        url = re.sub(r"\$\{\w+:-(\w+)\}", r"\1", environment["DRALAB_APISERVER_DATABASE"])
        database = engine(Database(url, REPOSITORY))
        assert database.name == "postgresql://dralab:***@database/dralab"
    settings = more["services"]["database"]["environment"]
    assert (settings["POSTGRES_USER"], settings["POSTGRES_DB"]) == ("dralab", "dralab")
