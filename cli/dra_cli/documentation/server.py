"""Find the documentation's site, and serve it on this machine.

``make dist`` and ``make docs`` build the full site. Without it, a plain site is rendered when it is first needed. The
pages load nothing from other servers, and the server's headers make browsers enforce this.
"""

import importlib.util
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from dra_shared.errors import UserError

_PACKAGE = Path(__file__).resolve().parents[1]
_CHECKOUT = _PACKAGE.parents[1]
# 'unsafe-inline': pages have small scripts and styles. blob: the search runs in a worker.
_POLICY = "default-src 'self' 'unsafe-inline' data:; worker-src 'self' blob:"


def find(scratch: Path) -> Path:
    """Return the folder of the site. If there is none, build it, or render a plain one in the folder ``scratch``.

    Raises:
        UserError: there are no pages, or the site cannot be built.
    """
    built = _CHECKOUT / "site"
    for folder in (_PACKAGE / "site", built):
        if (folder / "index.html").is_file():
            return folder
    if (_CHECKOUT / "tools" / "site").is_dir() and importlib.util.find_spec("mkdocs") is not None:
        if subprocess.run([sys.executable, "-m", "tools.site"], cwd=_CHECKOUT, check=False).returncode:
            raise UserError("the documentation cannot be built; see above")
        return built
    return _render(scratch)


def _render(scratch: Path) -> Path:
    """Render the pages of the installation, or of the checkout."""
    from dra_cli.documentation.html import build
    from dra_cli.documentation.pages import Pages

    pages = _PACKAGE / "pages"
    if not pages.is_dir():
        if not (_CHECKOUT / "docs" / "README.md").is_file():
            raise UserError(f"{pages} is missing: this dralab was built without its documentation")
        pages = scratch / "pages"
        Pages(_CHECKOUT, []).write_with_navigation(pages)
    build(pages, scratch / "site")
    return scratch / "site"


class Server:
    """The running server, at :attr:`url`."""

    def __init__(self, server: ThreadingHTTPServer, thread: threading.Thread, listen: str) -> None:
        self._thread = thread
        self.url = f"http://{listen}:{server.server_port}/"

    def wait(self) -> None:
        """Wait until the server ends."""
        self._thread.join()


@contextmanager
def serve(folder: Callable[[], Path], port: int, listen: str = "127.0.0.1") -> Iterator[Server]:
    """Serve a folder for the block, on loopback unless ``listen`` is another address.

    ``folder`` is called once the port is bound, because :func:`find` may take half a minute to build the site.

    Raises:
        UserError: it cannot listen there, for example because another program uses the port.
    """
    try:
        listening = ThreadingHTTPServer((listen, port), _Files)
    except OSError as error:
        raise UserError(f"cannot listen on {listen}:{port}: {error.strerror or error}") from error
    with listening as server:
        server.RequestHandlerClass = partial(_Files, directory=str(folder()))
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        try:
            yield Server(server, thread, listen)
        finally:
            server.shutdown()


class _Files(SimpleHTTPRequestHandler):
    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", _POLICY)
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """No-op: requests are not logged."""
