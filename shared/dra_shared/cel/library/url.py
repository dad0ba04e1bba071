"""URLs.

Mirrors k8s.io/apiserver/pkg/cel/library/urls.go.
"""

from operator import attrgetter
from typing import Final

from dra_shared.cel.declarations import Estimate, Function, Node, function, overload
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.library.costs import STRING, scan, size_range
from dra_shared.cel.ranges import factor
from dra_shared.cel.url import Url, UrlError


def url(text: str) -> Url:
    try:
        return Url.parse(text)
    except UrlError as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from None


def is_url(text: str) -> bool:
    try:
        Url.check(text)
    except UrlError:
        return False
    return True


def _estimate_url(target: Node | None, args: list[Node]) -> Estimate:
    size = size_range(args[0])
    return Estimate(factor(size, STRING), size)


FUNCTIONS: Final[tuple[Function, ...]] = (
    function("url", overload("string_to_url(string) URL", url), cost=scan(), estimate=_estimate_url),
    function("getScheme", overload(".url_get_scheme(URL) string", attrgetter("scheme"))),
    function("getHost", overload(".url_get_host(URL) string", attrgetter("host"))),
    function("getHostname", overload(".url_get_hostname(URL) string", attrgetter("hostname"))),
    function("getPort", overload(".url_get_port(URL) string", attrgetter("port"))),
    function("getEscapedPath", overload(".url_get_escaped_path(URL) string", attrgetter("path"))),
    function("getQuery", overload(".url_get_query(URL) map<string, list<string>>", Url.query_values)),
    function("isURL", overload("is_url_string(string) bool", is_url)),
)
