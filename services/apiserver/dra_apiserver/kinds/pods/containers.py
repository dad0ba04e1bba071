"""Validate the containers of pods and pod templates."""

from __future__ import annotations

from collections.abc import Sequence

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common import names
from dra_apiserver.errors import (
    FieldError,
    duplicate,
    field_not_found,
    forbidden_field,
    invalid,
    json_value,
    missing_field,
    not_supported,
    too_many,
)
from dra_apiserver.kinds.pods.claims import check_used_claims
from dra_apiserver.kinds.pods.probes import check_lifecycle, check_port, check_probe, port_name
from dra_apiserver.kinds.pods.quantities import check_requirements
from dra_apiserver.kinds.pods.references import ENV_SOURCES, check_env_source
from dra_apiserver.kinds.pods.security import check_container_context
from dra_apiserver.kinds.pods.volumes import check_mounts

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_RESIZED = ("cpu", "memory")
_RESIZE_POLICIES = ("NotRequired", "RestartContainer")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_TERMINATION_MESSAGES = ("File", "FallbackToLogsOnError")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_RESTARTS = ("Always", "Never", "OnFailure")
_RESTART_ACTIONS = ("Restart", "RestartAllContainers")
_EXIT_CODE_OPERATORS = ("In", "NotIn")
_MOST_RESTART_RULES, _MOST_EXIT_CODES = 20, 255
_NOT_EPHEMERAL = (
    "ports",
    "resources",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    "resizePolicy",
)


def _check_restarts(container: JsonObject, at: str) -> list[FieldError]:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or []
    errors: list[FieldError] = []
    if policy is None:
        if rules:
            errors.append(
                missing_field(f"{at}.restartPolicy", "must specify restartPolicy when restart rules are used")
            )
            if "initContainers" in at:
                return errors
    elif policy not in _RESTARTS:
        errors.append(not_supported(f"{at}.restartPolicy", policy, _RESTARTS))
    if len(rules) > _MOST_RESTART_RULES:
        errors.append(too_many(f"{at}.restartPolicyRules", len(rules), _MOST_RESTART_RULES))
    for index, rule in enumerate(rules):
        where = f"{at}.restartPolicyRules[{index}]"
        action, codes = rule.get("action", ""), rule.get("exitCodes")
        if action not in _RESTART_ACTIONS:
            errors.append(not_supported(f"{where}.action", action, _RESTART_ACTIONS))
        if codes is None:
            errors.append(missing_field(f"{where}.exitCodes", "must be specified"))
            continue
        if codes.get("operator", "") not in _EXIT_CODE_OPERATORS:
            errors.append(
                not_supported(f"{where}.exitCodes.operator", codes.get("operator", ""), _EXIT_CODE_OPERATORS)
            )
        count = len(codes.get("values") or [])
        if count > _MOST_EXIT_CODES:
            errors.append(too_many(f"{where}.exitCodes.values", count, _MOST_EXIT_CODES))
    return errors


class ContainerCheck:
    """Validates containers against their pod: volumes, claims and the grace period."""

    def __init__(
        self, volumes: dict[str, JsonObject], claims: set[str], grace: int | None, restart: str = ""
    ) -> None:
        self._volumes = volumes
        self._claims = claims
        self._grace = grace
        self._restart = restart

    def check_regular(self, containers: Sequence[JsonObject], path: str) -> list[FieldError]:
        """Validate the regular containers. There must be at least one."""
        if not containers:
            return [missing_field(path)]
        errors: list[FieldError] = []
        seen: set[str] = set()
        for index, container in enumerate(containers):
            at = f"{path}[{index}]"
            errors += self._check_common(container, at)
            name = container.get("name", "")
            if name in seen:
                errors.append(duplicate(f"{at}.name", name))
            seen.add(name)
            errors += self._check_running(container, at)
            errors += _check_restarts(container, at)
        return errors + _check_host_ports(containers, path)

    def check_init(
        self, containers: Sequence[JsonObject], regular: Sequence[JsonObject], path: str
    ) -> list[FieldError]:
        """Validate the init containers. One that always restarts keeps running together with the others."""
        errors: list[FieldError] = []
        seen = {container.get("name", "") for container in regular}
        for index, container in enumerate(containers):
            at = f"{path}[{index}]"
            errors += self._check_common(container, at)
            policy, name = container.get("restartPolicy"), container.get("name", "")
            errors += _check_restarts(container, at)
            if name in seen:
                errors.append(duplicate(f"{at}.name", name))
            elif name:
                seen.add(name)
            errors += _check_host_ports([container], path)
            if policy == "Always":
                errors += self._check_running(container, at)
            else:
                text = "may not be set for init containers without restartPolicy=Always"
                errors += [
                    forbidden_field(f"{at}.{field}", text)
                    for field in ("lifecycle", *_PROBES)
                    if container.get(field) is not None
                ]
        return errors

    def check_ephemeral(
        self, containers: Sequence[JsonObject], others: Sequence[JsonObject], path: str
    ) -> list[FieldError]:
        """Validate the ephemeral containers."""
        errors: list[FieldError] = []
        known = {container.get("name", "") for container in others}
        seen = set(known)
        for index, container in enumerate(containers):
            at = f"{path}[{index}]"
            errors += self._check_common(container, at)
            errors += check_image(container, at)
            name, target = container.get("name", ""), container.get("targetContainerName", "")
            if name in seen:
                errors.append(duplicate(f"{at}.name", name))
            seen.add(name)
            if target and target not in known:
                errors.append(field_not_found(f"{at}.targetContainerName", target))
            text = "cannot be set for an Ephemeral Container"
            errors += [
                forbidden_field(f"{at}.{field}", text) for field in _NOT_EPHEMERAL if container.get(field)
            ]
        return errors

    def _check_running(self, container: JsonObject, path: str) -> list[FieldError]:
        errors = check_lifecycle(container.get("lifecycle"), self._grace, f"{path}.lifecycle")
        for probe in _PROBES:
            errors += check_probe(container.get(probe), probe, f"{path}.{probe}")
        return errors

    def _check_common(self, container: JsonObject, path: str) -> list[FieldError]:
        name = container.get("name", "")
        errors = names.label(name, f"{path}.name") if name else [missing_field(f"{path}.name")]
        if not container.get("image"):
            errors.append(missing_field(f"{path}.image"))
        for field, known in (("terminationMessagePolicy", _TERMINATION_MESSAGES),):
            errors += _check_choice(container.get(field, ""), known, f"{path}.{field}")
        errors += _check_ports(container.get("ports") or (), f"{path}.ports")
        errors += _check_env(container.get("env") or (), f"{path}.env")
        errors += _check_env_from(container.get("envFrom") or (), f"{path}.envFrom")
        errors += check_mounts(container, self._volumes, path)
        errors += _check_choice(
            container.get("imagePullPolicy", ""), _PULL_POLICIES, f"{path}.imagePullPolicy"
        )
        errors += check_container_context(container.get("securityContext") or {}, f"{path}.securityContext")
        resources = container.get("resources") or {}
        errors += check_requirements(resources, f"{path}.resources")
        claims = resources.get("claims") or ()
        errors += check_used_claims(claims, self._claims, f"{path}.resources.claims")
        return errors + self._check_resizing(container.get("resizePolicy") or (), f"{path}.resizePolicy")

    def _check_resizing(self, policies: Sequence[JsonObject], path: str) -> list[FieldError]:
        """Validate a container's resize policies. Upstream's errors name no single policy except for a duplicate."""
        errors: list[FieldError] = []
        seen: set[str] = set()
        for index, policy in enumerate(policies):
            name, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
            if name in seen:
                errors.append(duplicate(f"{path}[{index}]", json_value(name)))
            seen.add(name)
            errors += _check_choice(name, _RESIZED, path)
            errors += _check_choice(restart, _RESIZE_POLICIES, path)
            if self._restart == "Never" and restart != "NotRequired":
                text = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
                errors.append(invalid(path, json_value(restart), text))
        return errors


def check_image(container: JsonObject, path: str) -> list[FieldError]:
    """Check the image of a pod's container. Templates are not checked."""
    image = container.get("image", "")
    if image == image.strip():
        return []
    return [invalid(f"{path}.image", image, "must not have leading or trailing whitespace")]


def _check_choice(value: str, known: Sequence[str], path: str) -> list[FieldError]:
    if not value:
        return [missing_field(path)]
    return [] if value in known else [not_supported(path, value, known)]


def _check_ports(ports: Sequence[JsonObject], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        at = f"{path}[{index}]"
        name = port.get("name", "")
        if name:
            problems = port_name(name)
            errors += [invalid(f"{at}.name", name, text) for text in problems]
            if not problems and name in seen:
                errors.append(duplicate(f"{at}.name", name))
            seen.add(name)
        number = port.get("containerPort") or 0
        if number:
            errors += check_port(number, f"{at}.containerPort")
        else:
            errors.append(missing_field(f"{at}.containerPort"))
        if port.get("hostPort"):
            errors += check_port(port["hostPort"], f"{at}.hostPort")
        errors += _check_choice(port.get("protocol", ""), _PROTOCOLS, f"{at}.protocol")
    return errors


def _check_host_ports(containers: Sequence[JsonObject], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for number, container in enumerate(containers):
        for index, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if key in seen:
                errors.append(duplicate(f"{path}[{number}].ports[{index}].hostPort", key))
            seen.add(key)
    return errors


def _check_env_name(name: str, path: str) -> list[FieldError]:
    if all(" " <= char <= "~" and char != "=" for char in name):
        return []
    text = "a valid environment variable name must consist only of printable ASCII characters other than '='"
    return [invalid(path, name, text)]


def _check_env(variables: Sequence[JsonObject], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, variable in enumerate(variables):
        at = f"{path}[{index}]"
        name, source = variable.get("name", ""), variable.get("valueFrom")
        errors += _check_env_name(name, f"{at}.name") if name else [missing_field(f"{at}.name")]
        if source is None:
            continue
        given = [kind for kind in ENV_SOURCES if source.get(kind) is not None]
        errors += check_env_source(source, f"{at}.valueFrom")
        if not given:
            listed = ", ".join(f"`{kind}`" for kind in ENV_SOURCES[:-1])
            text = f"must specify one of: {listed} or `{ENV_SOURCES[-1]}`"
            errors.append(invalid(f"{at}.valueFrom", "", text))
        elif variable.get("value"):
            errors.append(invalid(f"{at}.valueFrom", "", "may not be specified when `value` is not empty"))
        elif len(given) > 1:
            text = "may not have more than one field specified at a time"
            errors.append(invalid(f"{at}.valueFrom", "", text))
    return errors


def _check_env_from(sources: Sequence[JsonObject], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, source in enumerate(sources):
        at = f"{path}[{index}]"
        if source.get("prefix"):
            errors += _check_env_name(source["prefix"], f"{at}.prefix")
        given = [kind for kind in ("configMapRef", "secretRef") if source.get(kind) is not None]
        for kind in given:
            name = source[kind].get("name", "")
            errors += (
                names.subdomain(name, f"{at}.{kind}.name") if name else [missing_field(f"{at}.{kind}.name")]
            )
        if not given:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors
