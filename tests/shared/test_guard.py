import pytest
from dra_shared.guard import Guard

from tests.support.cases import each_case


def _refusal(guard: Guard, method: str = "POST", **headers: str) -> str | None:
    return guard.refusal(
        method, {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    )


@each_case(
    "host",
    [
        "localhost:8080",
        "LOCALHOST",
        "localhost.:8080",
        "lab.localhost:8080",
        "127.0.0.1:8080",
        "192.0.2.7",
        "[::1]:8080",
        "[fe80::1%eth0]:8080",
        "kubernetes.default.svc",
        "",
    ],
)
def test_requests_for_host_names_of_the_server_are_allowed(host: str) -> None:
    assert _refusal(Guard(), host=host) is None


def test_requests_for_the_host_name_of_the_machine_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "Box.corp.example")
    guard = Guard()
    assert _refusal(guard, host="box.corp.example:8080") is None
    assert _refusal(guard, host="box") is None
    assert _refusal(guard, host="other.corp.example") is not None


@each_case(
    "host",
    [
        "evil.example:8080",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "notlocalhost",
        "apiserver:8080",
        "[evil.example]:8080",
        "[]",
        ":8080",
    ],
)
def test_requests_for_unknown_host_names_are_rejected(host: str) -> None:
    reason = _refusal(Guard(), host=host)
    assert reason == f'host "{host}" is not a name of this server; --allowed-hosts adds names'


def test_configured_host_names_and_suffixes_are_allowed() -> None:
    guard = Guard(["apiserver", " Lab.example ", ".svc.example", ""])
    for host in ("apiserver:8080", "lab.example", "svc.example", "a.b.svc.example:1"):
        assert _refusal(guard, host=host) is None
    for host in ("api.lab.example", "evilsvc.example", "x.apiserver"):
        assert _refusal(guard, host=host) is not None
    assert _refusal(Guard(["*"]), host="any.example") is None


@each_case("site", ["cross-site", "same-site"])
@each_case("method", ["GET", "POST", "DELETE"])
def test_requests_marked_cross_site_by_the_browser_are_rejected(site: str, method: str) -> None:
    reason = _refusal(Guard(), method, host="localhost", sec_fetch_site=site)
    assert reason == f"cross-origin request: a web page of another origin asks (Sec-Fetch-Site: {site})"


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_requests_marked_same_origin_by_the_browser_are_allowed(site: str) -> None:
    # Through kubectl proxy the origin is the proxy's.
    passed = _refusal(Guard(), host="127.0.0.1:8080", sec_fetch_site=site, origin="http://127.0.0.1:8001")
    assert passed is None
    assert _refusal(Guard(), host="evil.example", sec_fetch_site=site) is not None


def test_links_from_other_sites_are_allowed_but_frames_and_forms_are_not() -> None:
    link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    assert _refusal(Guard(), "GET", host="localhost", **link) is None
    assert _refusal(Guard(), "POST", host="localhost", **link) is not None
    assert _refusal(Guard(), "GET", host="localhost", **{**link, "sec_fetch_dest": "iframe"}) is not None


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://localhost:3000", "null", "file://", "http://[::1"]
)
def test_the_origin_header_is_checked_without_fetch_metadata(origin: str) -> None:
    for method in ("GET", "POST"):
        reason = _refusal(Guard(), method, host="localhost:8080", origin=origin)
        assert reason == f'cross-origin request: a web page of origin "{origin}" asks'
    assert _refusal(Guard(), host="localhost:8080", origin="http://localhost:8080") is None


@each_case("given", ["", "Bearer", "Bearer other", "secret", "bearer secret", "Bearer secret "])
def test_a_configured_token_is_required(given: str) -> None:
    guard = Guard(token="secret")
    assert _refusal(guard, host="localhost", authorization=given) == (
        "the request lacks the token that this server requires"
    )
    assert _refusal(guard, host="localhost", authorization="Bearer secret") is None
    assert _refusal(guard, host="evil.example", authorization="Bearer secret") is not None
