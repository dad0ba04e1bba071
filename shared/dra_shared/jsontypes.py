"""The type of an object in JSON, for code that works with objects of any kind."""

from typing import Any

JsonObject = dict[str, Any]
