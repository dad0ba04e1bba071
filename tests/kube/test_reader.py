"""The blocking client of commands that only read."""

import signal
import socket
import threading
from collections.abc import Iterator

import pytest
from dra_kube.reader import Reader

_ANSWER = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nfirst\n\r\n"


@pytest.fixture
def server() -> Iterator[str]:
    """Return a server that sends one line of a watch, and nothing more."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        held: list[socket.socket] = []

        def serve() -> None:
            connection, _ = listener.accept()
            held.append(connection)
            connection.recv(4096)
            connection.sendall(_ANSWER)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()
        for connection in held:
            connection.close()


def test_a_request_is_retried_as_the_server_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("dra_kube.reader.time.sleep", slept.append)
    answers = [
        b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 2\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n" + b'{"a": 1}',
    ]

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            for answer in answers:
                connection.recv(4096)
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        with Reader(f"http://127.0.0.1:{listener.getsockname()[1]}") as reader:
            assert reader.json("/api") == {"a": 1}
        thread.join()
    assert slept == [2]


def test_a_signal_just_before_a_read_ends_a_watch(server: str) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def send() -> None:
        # A signal in another thread is recorded but interrupts no read of the main thread, like one that
        # arrives too early.
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with Reader(server) as reader:
            lines = reader.lines("/api/v1/pods", {"watch": "true"})
            assert next(lines) == b"first\n"
            timer = threading.Timer(0.1, send)

            def wait() -> bytes:
                timer.start()
                return next(lines)

            with pytest.raises(KeyboardInterrupt):
                wait()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_watch_restores_the_interval_timer_of_the_program(server: str) -> None:
    rest = signal.setitimer(signal.ITIMER_REAL, 1000)
    try:
        with Reader(server) as reader:
            lines = reader.lines("/api/v1/pods", {"watch": "true"})
            assert next(lines) == b"first\n"
            lines.close()  # type: ignore[attr-defined]  # a generator, which its type does not say
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 900
    finally:
        signal.setitimer(signal.ITIMER_REAL, *rest)
