"""Schemas of requests and answers whose types are in other packages.

The API server imports no scheduler, so ``make reference`` writes the schemas to insight.json (``tools/insight.py``).
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import orjson
from dra_shared.jsontypes import JsonObject
from fastapi import FastAPI

_FILE = Path(__file__).with_name("insight.json")


@functools.cache
def _data() -> JsonObject:
    found: JsonObject = orjson.loads(_FILE.read_bytes())
    return found


def questions() -> dict[str, JsonObject]:
    """Return the planner's questions by name, each with the names of its ``request`` and ``answer``."""
    found: dict[str, JsonObject] = _data()["questions"]
    return found


def describe_body(name: str) -> JsonObject:
    """Return the OpenAPI description of a request with this schema."""
    return {"requestBody": {"required": True, "content": _content(name)}}


def describe_answer(name: str) -> dict[int | str, JsonObject]:
    """Return the OpenAPI description of an answer with this schema."""
    return {200: {"content": _content(name)}}


def _content(name: str) -> JsonObject:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}


def add_schemas(app: FastAPI) -> None:
    """Add the schemas to the application's OpenAPI document."""
    build = app.openapi

    def openapi() -> dict[str, Any]:
        document = build()
        document["components"]["schemas"] |= _data()["schemas"]
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI documents it
