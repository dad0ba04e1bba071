"""Test which URLs are rejected, with Go's error texts, and the parts of the others."""

import pytest
from dra_shared.cel.url import Url, UrlError

from tests.support.cases import each_case


@each_case(
    ("text", "reason"),
    [
        ("", "empty url"),
        ("a b", "invalid URI for request"),
        ("?x", "invalid URI for request"),
        ("1http://x", "invalid URI for request"),
        ("://x", "missing protocol scheme"),
        ("http://a:port/", 'invalid port ":port" after host'),
        ("http://a:80:90/", 'invalid port ":80:90" after host'),
        ("http://a/%zz", 'invalid URL escape "%zz"'),
        ("http://%41.com/", 'invalid URL escape "%41"'),
        ("http://[::1", "missing ']' in host"),
        ("http://[::1]x/", 'invalid port "x" after host'),
        ("http://[1.2.3.4]/", "invalid IP-literal"),
        ("http://x[::1]/", "invalid IP-literal"),
        ("http://[::1:]/",
         'invalid host: ParseAddr("::1:"): colon must be followed by more characters (at ":")'),
        ("http://a b/", 'invalid character " " in host name'),
        ("http://u^@h/", "net/url: invalid userinfo"),
        ("http://u%zz@h/", 'invalid URL escape "%zz"'),
    ],
)  # fmt: skip
def test_invalid_urls_have_the_errors_of_go(text: str, reason: str) -> None:
    with pytest.raises(UrlError) as caught:
        Url.parse(text)
    assert str(caught.value) == f'parse "{text}": {reason}'


@each_case(
    ("text", "host", "hostname", "port", "path"),
    [
        ("https://u:p@h:443/p%20q?x=1", "h:443", "h", "443", "/p%20q"),
        ("http://[::1]:80/", "[::1]:80", "::1", "80", "/"),
        ("http://[fe80::1%25en0]/", "[fe80::1%en0]", "fe80::1%en0", "", "/"),
        ("HTTP://A.B/ü", "A.B", "A.B", "", "/%C3%BC"),
        ("//host/p", "host", "host", "", "/p"),
        ("x:y", "", "", "", ""),
        ("*", "", "", "", "*"),
        ("a:b/c", "", "", "", ""),
    ],
)
def test_parts_of_urls_equal_those_of_go(text: str, host: str, hostname: str, port: str, path: str) -> None:
    url = Url.parse(text)
    assert (url.host, url.hostname, url.port, url.path) == (host, hostname, port, path)


def test_queries_are_read_as_in_go() -> None:
    assert Url.parse("/p?x=1&y=%41+b&x=3&;a=1&z=%zz&q").query_values() == {
        "x": ["1", "3"],
        "y": ["A b"],
        "q": [""],
    }


def test_urls_are_equal_if_written_the_same_way() -> None:
    assert Url.parse("http://a.b/c#f") == Url.parse("HTTP://a.b/c#f")
    assert Url.parse("http://a.b/c") != Url.parse("http://a.b/c?")
    assert str(Url.parse("http:///p")) == "http:///p"
    assert str(Url.parse("http://u@h/p")) == "http://u@h/p"
