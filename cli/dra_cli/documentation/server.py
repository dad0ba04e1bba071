"""Find the documentation's site, and serve it on this machine.

``make dist`` and ``make docs`` build the whole site. Elsewhere a plain one is rendered when it is first asked for. Its
pages load nothing from elsewhere, and the server's headers have browsers hold them to that.
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
# Pages have small scripts of their own in them; the search runs in a worker.
_POLICY = "default-src 'self' 'unsafe-inline' data:; worker-src 'self' blob:"


def find(scratch: Path) -> Path:
    """Return the folder of the site, which is built first if it is missing; a plain one in the folder ``scratch``.

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
    """A server of files at :attr:`url`."""

    def __init__(self, server: ThreadingHTTPServer, thread: threading.Thread, listen: str) -> None:
        self._thread = thread
        self.url = f"http://{listen}:{server.server_port}/"

    def wait(self) -> None:
        """Wait until it ends."""
        self._thread.join()


@contextmanager
def serve(folder: Callable[[], Path], port: int, listen: str = "127.0.0.1") -> Iterator[Server]:
    """Serve a folder within the context, on loopback unless ``listen`` is another address.

    ``folder`` is called once the port is ours: :func:`find` may build the site, which takes half a minute.

    Raises:
        UserError: it cannot listen there, as where another program has the port.
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
        """Nothing is logged."""
