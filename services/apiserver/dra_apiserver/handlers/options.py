"""Parse the options in a request's query, with upstream's checks."""

from __future__ import annotations

import functools
import random
import re
from dataclasses import dataclass

from dra_shared.fieldselectors import FieldSelector, parse_field_selector
from dra_shared.numerals import integer
from dra_shared.selectors import LabelSelector, SelectorError, parse_label_selector

from dra_apiserver.common.objectmeta import validate_field_manager
from dra_apiserver.errors import (
    FieldError,
    Verbatim,
    bad_request,
    forbidden_field,
    invalid_object,
    missing_field,
    not_supported,
    quote,
    server_error,
)
from dra_apiserver.http import Request
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.storage.versioner import parse_resource_version

_META_GROUP = "meta.k8s.io"
_MIN_WATCH_TIMEOUT = 1800.0
_INT = re.compile(r"[+-]?[0-9]+").fullmatch


def _integer(request: Request, name: str) -> int:
    text = request.query.get(name)
    return 0 if text is None else parse_integer(text)


def parse_integer(text: str) -> int:
    """Parse a number in a query as Go parses 64-bit integers.

    Raises:
        StatusError: 400.
    """
    if not _INT(text):
        raise bad_request(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax")
    number = integer(text)
    if not -(2**63) <= number < 2**63:
        raise bad_request(f"strconv.ParseInt: parsing {quote(text)}: value out of range")
    return number


@dataclass(frozen=True, slots=True)
class ListOptions:
    """`metav1.ListOptions`. `revision` is `resource_version` as a number, or 0 if that is empty."""

    labels: LabelSelector
    fields: FieldSelector
    watch: bool
    bookmarks: bool
    resource_version: str
    revision: int
    match: str
    limit: int
    continue_token: str
    timeout: float
    send_initial_events: bool | None


def list_options(request: Request, kind: Kind, watch: bool, version: str = "") -> ListOptions:
    """Return the options of a list, a watch or a deletecollection of the kind in `version`.

    Raises:
        StatusError: 400 or 422.
    """
    query = request.query
    try:
        labels = parse_label_selector(query.get("labelSelector", ""))
        fields = parse_field_selector(query.get("fieldSelector", ""))
    except SelectorError as error:
        raise bad_request(str(error)) from None
    for term in fields.terms:
        if problem := _unknown_field(kind, version or kind.storage_version, term.field):
            raise bad_request(problem)
    timeout = _integer(request, "timeoutSeconds")
    limit = _integer(request, "limit")
    resource_version = query.get("resourceVersion", "")
    match = query.get("resourceVersionMatch", "")
    token = query.get("continue", "")
    initial = request.flag("sendInitialEvents") if "sendInitialEvents" in query else None
    errors = _match_errors(watch, initial, resource_version, match, token)
    if errors:
        raise invalid_object(_META_GROUP, "ListOptions", "", errors)
    try:
        revision = parse_resource_version(resource_version)
    except ValueError as error:
        text = f"resourceVersion: Invalid value: {quote(resource_version)}: {error}"
        # Upstream responds with 500 to a watch, because its storage finds the error and not the request's
        # check.
        raise server_error(text) if watch else bad_request(f"invalid resource version: {text}") from None
    timeout_seconds = float(timeout) if timeout > 0 else _MIN_WATCH_TIMEOUT * random.uniform(1.0, 2.0)
    return ListOptions(
        labels=labels,
        fields=fields,
        watch=watch,
        bookmarks=request.flag("allowWatchBookmarks"),
        resource_version=resource_version,
        revision=revision,
        match=match,
        limit=limit,
        continue_token=token,
        timeout=timeout_seconds,
        send_initial_events=initial,
    )


def _unknown_field(kind: Kind, version: str, label: str) -> str:
    """Return the error of selecting by the field; "" if that is allowed."""
    if label in kind.field_selection.fields:
        return ""
    if kind.field_selection.label_error is not None:
        return kind.field_selection.label_error(kind.api_version(version), kind.kind, label)
    if label == "metadata.namespace":
        return ""
    names = dict.fromkeys(("metadata.name", "metadata.namespace", *kind.field_selection.fields))
    return f"{quote(label)} is not a known field selector: only {', '.join(map(quote, names))}"


def _match_errors(
    watch: bool, initial: bool | None, version: str, match: str, token: str
) -> list[FieldError]:
    # apimachinery: validation.ValidateListOptions
    field = "resourceVersionMatch"
    errors: list[FieldError] = []
    if watch:
        if initial is not None and match != "NotOlderThan":
            errors.append(
                forbidden_field(
                    field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
                )
            )
        if match:
            if initial is None:
                text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
                errors.append(forbidden_field(field, text))
            if match != "NotOlderThan":
                errors.append(not_supported(field, match, ("NotOlderThan",)))
            if token:
                errors.append(
                    forbidden_field(field, "resourceVersionMatch is forbidden when continue is provided")
                )
        return errors
    if match:
        if not version:
            text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            errors.append(forbidden_field(field, text))
        if token:
            errors.append(
                forbidden_field(field, "resourceVersionMatch is forbidden when continue is provided")
            )
        if match not in {"Exact", "NotOlderThan"}:
            errors.append(not_supported(field, match, ("Exact", "NotOlderThan", "")))
        if match == "Exact" and version == "0":
            text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            errors.append(forbidden_field(field, text))
    if initial is not None:
        errors.append(forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return errors


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Common options of create, update and patch."""

    dry_run: bool
    manager: str
    field_validation: str
    force: bool | None


def check_dry_run(values: list[str]) -> list[FieldError]:
    """Check that the only value is "All"."""
    if all(value == "All" for value in values):
        return []
    shown = "[" + ",".join(quote(value) for value in values) + "]"
    return [not_supported("dryRun", Verbatim(shown), ("All",))]


def write_options(request: Request, options_kind: str, apply: bool = False) -> WriteOptions:
    """Return the options of a create, update or patch. `options_kind` is the name of the options in errors.

    Raises:
        StatusError: 422.
    """
    agent = request.header(b"user-agent")
    if not request.scope["query_string"] and not apply:
        return _plain_options(agent)
    query = request.query
    dry_run = [value for name, value in request.parameters if name == "dryRun"]
    manager = query.get("fieldManager", "")
    validation = query.get("fieldValidation", "")
    force = request.flag("force") if "force" in query else None
    errors: list[FieldError] = []
    if apply and not manager:
        errors.append(missing_field("fieldManager", "is required for apply patch"))
    if options_kind == "PatchOptions" and not apply and force is not None:
        errors.append(forbidden_field("force", "may not be specified for non-apply patch"))
    errors += validate_field_manager(manager, "fieldManager")
    errors += check_dry_run(dry_run)
    if validation not in {"", "Ignore", "Warn", "Strict"}:
        errors.append(not_supported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn")))
    if errors:
        raise invalid_object(_META_GROUP, options_kind, "", errors)
    return WriteOptions(bool(dry_run), manager or manager_of(agent), validation or "Warn", force)


@functools.lru_cache(maxsize=256)
def _plain_options(agent: str) -> WriteOptions:
    return WriteOptions(False, manager_of(agent), "Warn", None)


@functools.lru_cache(maxsize=256)
def manager_of(agent: str) -> str:
    """Return upstream's default manager: the first part of the User-Agent, limited to a valid name."""
    name = agent.partition("/")[0]
    return "".join(char for char in name if char.isprintable())[:128] or "unknown"
