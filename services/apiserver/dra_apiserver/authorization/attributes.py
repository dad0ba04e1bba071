"""The action that a user requests, and the error for a forbidden action (apiserver's authorizer.Attributes)."""

from __future__ import annotations

from dataclasses import dataclass

from dra_apiserver.errors import GroupResource, StatusError, forbidden_error, quote
from dra_apiserver.user import UserInfo

# Upstream escapes its messages so that they never look like HTML.
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(frozen=True, slots=True)
class Attributes:
    """A verb on a resource, or on a non-resource ``path``."""

    user: UserInfo
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str | None = None
    fields: tuple[tuple[str, str], ...] = ()
    """The fields with a single value in the field selector of a list, a watch or a deletecollection."""

    @property
    def combined_resource(self) -> str:
        """The resource with its subresource, as in rules."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def refusal(wanted: Attributes, reason: str) -> StatusError:
    """Return the 403 error for a forbidden action, with upstream's message."""
    text = f"User {quote(wanted.user.name)} cannot {wanted.verb} "
    if wanted.path is not None:
        text += f"path {quote(wanted.path)}"
    else:
        text += f"resource {quote(wanted.combined_resource)} in API group {quote(wanted.group)} "
        text += f"in the namespace {quote(wanted.namespace)}" if wanted.namespace else "at the cluster scope"
    text = text.translate(_HTML)
    return forbidden_error(
        GroupResource(wanted.group, wanted.resource), wanted.name, f"{text}: {reason}" if reason else text
    )
