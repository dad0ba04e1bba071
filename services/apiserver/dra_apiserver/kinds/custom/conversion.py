"""Convert custom resources by the webhook of their definition (apiextensions' ``conversion/webhook_converter.go``)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable
from typing import Any

import orjson
from dra_shared.jsontext import dumps
from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.objectmeta import validate_annotations, validate_labels
from dra_apiserver.errors import quote, server_error
from dra_apiserver.offload import wait_for
from dra_apiserver.schema.gotext import go_type
from dra_apiserver.webhook import CallError, Calls

Prune = Callable[[str, JsonObject], None]
"""Removes the fields that are not in the schema of a version from an object."""

# The timeout of upstream's client for webhooks, which definitions cannot set.
_TIMEOUT = 30
_GROUP = "apiextensions.k8s.io"
_AT_ONCE = 16
_KEPT = 10_000


class _Malformed(Exception):
    """The webhook's response is invalid. The message is Go's."""


class Converter:
    """Calls the webhook of one definition, and keeps the results for stored objects."""

    def __init__(self, spec: JsonObject, calls: Calls, prune: Prune) -> None:
        webhook = spec["conversion"].get("webhook") or {}
        self._group = spec["group"]
        self._config: JsonObject = webhook.get("clientConfig") or {}
        self._reviews: list[str] = webhook.get("conversionReviewVersions") or []
        self._calls = calls
        self._prune = prune
        self._kept: dict[tuple[bytes, str], bytes] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def convert(self, obj: JsonObject, version: str) -> JsonObject:
        """Return the object in another version.

        Raises:
            StatusError: 500, the webhook failed.
        """
        wanted = f"{self._group}/{version}"
        if obj["apiVersion"] == wanted:
            return obj
        subject = f"conversion webhook for {_gvk(obj)}"
        review = next((one for one in self._reviews if one in ("v1", "v1beta1")), None)
        if review is None:
            raise server_error("no supported conversion review versions")
        number = str(uuid.uuid4())
        question = {
            "kind": "ConversionReview",
            "apiVersion": f"{_GROUP}/{review}",
            "request": {"uid": number, "desiredAPIVersion": wanted, "objects": [obj]},
            "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
        }
        try:
            async with self._turns:
                answer = await self._calls.post(self._config, question, _TIMEOUT)
            converted = _converted_objects(answer, review, number)
        except (CallError, _Malformed) as error:
            raise server_error(f"{subject} failed: {error}") from None
        if len(converted) != 1:
            raise server_error(f"{subject} returned {len(converted)} objects, expected 1")
        try:
            made = _check(obj, converted[0], self._group, version)
        except _Malformed as error:
            raise server_error(f"{subject} returned invalid {error}") from None
        self._prune(version, made)
        return made

    def convert_in_place(self, obj: JsonObject, version: str) -> None:
        """Do the same as `convert` in a thread, and replace the object's content.

        Raises:
            StatusError: 500, the webhook failed.
        """
        made = wait_for(self.convert(obj, version))
        if made is not obj:
            obj.clear()
            obj.update(made)

    async def fetch(self, stored: Iterable[bytes], version: str, fresh: bool) -> None:
        """Convert stored objects and keep the results. `fresh` converts those again that were converted before.

        Raises:
            StatusError: 500, the webhook failed.
        """
        missing = {data for data in stored if fresh or (data, version) not in self._kept}
        results = await asyncio.gather(
            *(self._fetch(data, version) for data in missing), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _fetch(self, data: bytes, version: str) -> bytes:
        obj = orjson.loads(data)
        made = await self.convert(obj, version)
        while len(self._kept) >= _KEPT:
            del self._kept[next(iter(self._kept))]
        result = self._kept[data, version] = data if made is obj else dumps(made)
        return result

    def load(self, data: bytes, version: str) -> JsonObject:
        """Return a stored object in the version. Only threads may ask for one that was not fetched.

        Raises:
            StatusError: 500, the webhook failed.
        """
        kept = self._kept.get((data, version))
        obj: JsonObject = orjson.loads(wait_for(self._fetch(data, version)) if kept is None else kept)
        return obj


class ByWebhook:
    """The persistence of a kind that requests see in one version, and that is stored in another."""

    waits = True

    def __init__(self, converter: Converter, seen: str, stored: str) -> None:
        self._converter = converter
        self._seen = seen
        self._stored = stored

    def decode(self, data: bytes) -> JsonObject:
        """Return a stored object as requests see it."""
        return self._converter.load(data, self._seen)

    def encode(self, obj: JsonObject) -> JsonObject:
        """Return an object as it is stored."""
        self._converter.convert_in_place(obj, self._stored)
        return obj

    async def fetch(self, stored: Iterable[bytes], fresh: bool = False) -> None:
        """Convert stored objects for `decode`."""
        await self._converter.fetch(stored, self._seen, fresh)


class ByName:
    """The persistence of a kind whose stored objects have several versions that differ in name only."""

    waits = False

    def __init__(self, api_version: str) -> None:
        self._api_version = api_version

    def decode(self, data: bytes) -> JsonObject:
        """Return a stored object as requests see it."""
        obj: JsonObject = orjson.loads(data)
        obj["apiVersion"] = self._api_version
        return obj

    def encode(self, obj: JsonObject) -> JsonObject:
        """Return the object unchanged."""
        return obj

    async def fetch(self, stored: Iterable[bytes], fresh: bool = False) -> None:
        """No-op: no conversion waits."""


def _gvk(obj: JsonObject) -> str:
    return f"{obj.get('apiVersion', '')}, Kind={obj.get('kind', '')}"


def _converted_objects(answer: JsonObject, review: str, number: str) -> list[Any]:
    """Return the objects of a response, as upstream's ``getConvertedObjectsFromResponse``."""
    wanted = f"{_GROUP}/{review}, Kind=ConversionReview"
    if _gvk(answer) != wanted:
        raise _Malformed(f"expected webhook response of {wanted}, got {_gvk(answer)}")
    response = answer.get("response")
    if not isinstance(response, dict):
        raise _Malformed("no response provided")
    # Upstream does not compare the uid of the older version.
    if review == "v1" and (found := response.get("uid", "")) != number:
        raise _Malformed(f"expected response.uid={quote(number)}, got {quote(found)}")
    result = response.get("result") or {}
    if result.get("status") != "Success":
        status = result.get("status", "")
        raise _Malformed(result.get("message") or f"response.result.status was '{status}', not 'Success'")
    return response.get("convertedObjects") or []


def _check(obj: JsonObject, made: Any, group: str, version: str) -> JsonObject:
    """Return the converted object with the metadata that a webhook must not change.

    Raises:
        _Malformed: it is not the same object in the version.
    """
    if not isinstance(made, dict) or not made.get("kind"):
        shown = dumps(made).decode()
        raise _Malformed(f"object: Object 'Kind' is missing in '{shown}'")
    found = made.get("apiVersion", "")
    if found != f"{group}/{version}":
        raise _Malformed(
            f"object at index 0: invalid groupVersion (expected {group}/{version}, received {found})"
        )
    if made["kind"] != obj["kind"]:
        text = f"expected {obj['kind']}, received {made['kind']}"
        raise _Malformed(f"object at index 0: invalid kind ({text})")
    meta = made.get("metadata")
    named = meta if isinstance(meta, dict) else {}
    for key, name in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        before, after = obj["metadata"].get(key, ""), named.get(key, "")
        if before != after:
            raise _Malformed(f"object: must have the same {name}: {before} != {after}")
    try:
        made["metadata"] = _restore(obj["metadata"], made)
    except _Malformed as error:
        raise _Malformed(f"metadata: {error}") from None
    return made


def _restore(before: JsonObject, made: JsonObject) -> JsonObject:
    """Return the original metadata with the labels and annotations of the converted object."""
    if "metadata" not in made:
        raise _Malformed("missing metadata in converted object")
    found = made["metadata"]
    if not isinstance(found, dict):
        raise _Malformed(f"invalid metadata of type {go_type(found)} in converted object")
    meta: JsonObject = orjson.loads(dumps(before))
    for field in ("labels", "annotations"):
        values = found.get(field)
        if values is None:
            meta.pop(field, None)
            continue
        if not isinstance(values, dict):
            raise _Malformed(f"invalid metadata.{field} of type {go_type(values)} in converted object")
        for key, value in values.items():
            if not isinstance(value, str):
                text = f"must be a string, but is {go_type(value)} in converted object"
                raise _Malformed(f"metadata.{field}[{key}] {text}")
        if values != (meta.get(field) or {}):
            _validate(field, values)
        meta[field] = values
    return meta


def _validate(field: str, values: JsonObject) -> None:
    if field == "labels":
        errors = validate_labels(values, "metadata.labels")
    else:
        # Upstream's path lacks the last letter.
        errors = validate_annotations(values, "metadata.annotation")
    texts = list(dict.fromkeys(str(error) for error in errors))
    if texts:
        raise _Malformed(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
