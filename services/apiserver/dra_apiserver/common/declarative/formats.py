"""The string formats of declared rules (apimachinery's `validate/strfmt.go`)."""

from __future__ import annotations

import re
from collections.abc import Callable

from dra_shared.names import dns_label, dns_subdomain, label_key, path_segment

from dra_apiserver.common.names import DOMAIN_LENGTH, c_identifier, prefixed_label_key
from dra_apiserver.errors import FieldError, invalid, too_long

Format = Callable[[str, str], list[FieldError]]
"""Returns the errors of a text at a path."""

_POOL_NAME_LENGTH = 253
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CASELESS = {
    "a lowercase RFC 1123 subdomain must consist of lower case": "an RFC 1123 subdomain must consist of",
    "'example.com'": "'Example.com'",
}


def _of_texts(texts: Callable[[str], list[str]]) -> Format:
    return lambda value, path: [invalid(path, value, text) for text in texts(value)]


def _long_name_caseless(value: str) -> list[str]:
    texts = dns_subdomain(value.lower(), bytes_limit=True)
    if not texts:
        return texts
    for strict, caseless in _CASELESS.items():
        texts = [text.replace(strict, caseless) for text in texts]
    return texts


def _extended_resource_name(value: str) -> list[str]:
    texts = []
    if "/" not in value:
        texts.append("a name must be a domain-prefixed path, such as 'example.com/my-prop'")
    elif "kubernetes.io/" in value:
        texts.append('must not have "kubernetes.io/" domain')
    if value.startswith("requests."):
        texts.append('must not have "requests." prefix')
    return texts + label_key(f"requests.{value}")


def _pool_name(value: str, path: str) -> list[FieldError]:
    errors = [too_long(path, _POOL_NAME_LENGTH)] if len(value.encode()) > _POOL_NAME_LENGTH else []
    for index, part in enumerate(value.split("/")):
        texts = dns_subdomain(part, bytes_limit=True) if part else ["must not be empty"]
        errors += [invalid(path, part or value, f"segment {index}: {text}") for text in texts]
    return errors


def _fully_qualified_name(value: str, path: str) -> list[FieldError]:
    """Check a qualified name. Like upstream, allow more than one slash."""
    parts = value.split("/")
    if len(parts) == 1:
        text = "a fully qualified name must be a domain and a name separated by a slash"
        return [*c_identifier(value, path), invalid(path, value, text)]
    if len(parts) > 2:
        return []
    domain, name = parts
    errors = []
    if not domain:
        errors.append(invalid(path, "", "prefix must not be empty"))
    elif len(domain.encode()) > DOMAIN_LENGTH:
        errors.append(too_long(path, DOMAIN_LENGTH))
    if domain:
        errors += [
            invalid(path, domain, f"prefix: {text}") for text in dns_subdomain(domain, bytes_limit=True)
        ]
    return errors + (c_identifier(name, path) if name else [invalid(path, "", "name must not be empty")])


def _uuid(value: str) -> list[str]:
    return [] if _UUID.fullmatch(value) else ["must be a lowercase UUID in 8-4-4-4-12 format"]


FORMATS: dict[str, Format] = {
    "k8s-extended-resource-name": _of_texts(_extended_resource_name),
    "k8s-label-key": _of_texts(label_key),
    "k8s-long-name": _of_texts(lambda value: dns_subdomain(value, bytes_limit=True)),
    "k8s-long-name-caseless": _of_texts(_long_name_caseless),
    "k8s-path-segment-name": _of_texts(path_segment),
    "k8s-prefixed-label-key": _of_texts(prefixed_label_key),
    "k8s-resource-fully-qualified-name": _fully_qualified_name,
    "k8s-resource-pool-name": _pool_name,
    "k8s-short-name": _of_texts(lambda value: dns_label(value, bytes_limit=True)),
    "k8s-uuid": _of_texts(_uuid),
}
