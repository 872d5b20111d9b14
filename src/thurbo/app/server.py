"""A page on this machine: a small server of the standard library, a few files, a few JSON answers, nothing else.

It listens on this machine only unless told otherwise. Every address begins with a random token, requests of other
hosts (DNS rebinding) and large bodies are refused, one question is answered at a time, and a failure is a sentence in
the page, never a traceback.
"""

from __future__ import annotations

import json
import secrets
import sys
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any, ClassVar, Protocol

from thurbo.errors import ThurboError

MOST_BYTES = 2_000_000  # of a request: 30,000 points and the names of segments
SECONDS = 20  # a connection that says nothing for longer is closed
LOOPBACK = ("127.0.0.1", "localhost", "::1")
KINDS = {"html": "text/html", "js": "text/javascript", "css": "text/css"}  # of files, by extension
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Served(Protocol):
    """What a page needs: its files, and what it can ask."""

    command: ClassVar[str]  # that prints the address
    page: ClassVar[str]  # name of its files in assets: page.html, page.js and page.css

    @property
    def questions(self) -> Mapping[str, Callable[[Mapping[str, Any]], Any]]:
        """What can be asked, by the last part of the address."""


class Server(ThreadingHTTPServer):
    """A server of one session; `address` is what to open in a browser once `serve_forever` runs."""

    daemon_threads = True
    request_queue_size = 128  # connections that wait to be accepted; by default five, and others are reset

    def __init__(self, session: Served, host: str = "127.0.0.1", port: int = 0):
        self.session, self.token, self.lock = session, secrets.token_urlsafe(18), threading.Lock()
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            problem = f"cannot listen on {host}, port {port}: {error.strerror or error}"
            raise ThurboError(f"{problem}; give another --port") from None
        self.host, self.port = host, int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing if the client left before the answer was sent; anything else is printed."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        """The address of the page, with its token."""
        return f"http://{self.host}:{self.port}/{self.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version, protocol_version, timeout = "thurbo", "", "HTTP/1.1", SECONDS

    def log_message(self, *_: Any) -> None:
        """Nothing: addresses hold the token."""

    def _part(self) -> str | None:
        """The address after the token; None if the request is not for this page."""
        host = (self.headers.get("Host") or "").rsplit(":", 1)[0].strip("[]").lower()
        if host not in {*LOOPBACK, self.server.host.lower()} and self.server.host not in ("0.0.0.0", "::"):
            return None
        parts = self.path.partition("?")[0].split("/")
        if len(parts) != 3 or not secrets.compare_digest(parts[1].encode(), self.server.token.encode()):
            return None
        return parts[2]

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if status >= 400:
            self.close_connection = True
        self.end_headers()
        self.wfile.write(body)

    def _refuse(self, status: int, problem: str) -> None:
        self._send(status, json.dumps({"error": problem}).encode(), "application/json")

    def _refuse_address(self) -> None:
        self._refuse(404, f"there is nothing here; open the address that {self.server.session.command} printed")

    def do_GET(self) -> None:
        """The page, its own files and those that all pages share."""
        part, page = self._part(), self.server.session.page
        if part not in {"", *(f"{name}.{ending}" for name in (page, "page") for ending in ("js", "css"))}:
            self._refuse_address()
            return
        name = part or f"{page}.html"
        kind = f"{KINDS[name.rpartition('.')[2]]}; charset=utf-8"
        self._send(200, files("thurbo.app").joinpath("assets", name).read_bytes(), kind)

    def do_POST(self) -> None:
        """A question of the page, answered as JSON."""
        part = self._part()
        size = self.headers.get("Content-Length", "")
        if part is None or part not in self.server.session.questions:
            self._refuse_address()
        elif not (size.isascii() and size.isdigit()) or int(size) > MOST_BYTES:
            self._refuse(413, "the request is too large")
        elif self.headers.get_content_type() != "application/json":
            self._refuse(415, "the request is not JSON")
        else:
            self._send(*self._answer(part, self.rfile.read(int(size))), "application/json")

    def _answer(self, part: str, body: bytes) -> tuple[int, bytes]:
        """Status and JSON of the answer; it is sent by the caller, so that a client who left is no failure of ours."""
        try:
            asked = json.loads(body)
            if not isinstance(asked, dict):
                raise ThurboError("the request is not an object")
            with self.server.lock:
                return 200, json.dumps(self.server.session.questions[part](asked), allow_nan=False).encode()
        except ThurboError as error:
            status, problem = 400, " ".join(str(error).split())
        except (ValueError, RecursionError):
            status, problem = 400, "the request could not be read"
        except Exception as error:
            status, problem = 500, f"unexpected {type(error).__name__}; the other parts of the page still work"
        return status, json.dumps({"error": problem}).encode()
