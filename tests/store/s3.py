"""An S3 server on the loopback address (moto's, in a process of its own), and a proxy that misbehaves."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEYS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@contextmanager
def server() -> Generator[str]:
    """Its address; a bucket ``builds`` is there."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    code = f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **KEYS},
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait(address, process)
        request = urllib.request.Request(f"{address}/builds", method="PUT")
        urllib.request.urlopen(request).close()
        yield address
    finally:
        process.kill()
        process.wait()


def _wait(address: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert process.poll() is None, "the server did not start"
        try:
            urllib.request.urlopen(f"{address}/moto-api/", timeout=5).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the server does not answer")


Change = Callable[[str, str, int, bytes], tuple[int, bytes]]
"""Method, path, status and body of a response -> those that the client receives."""


@contextmanager
def proxy(address: str, change: Change) -> Generator[str]:
    """The same server, but what it answers is changed."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name: value for name, value in self.headers.items() if name != "Host"}
            headers["Host"] = address.removeprefix("http://")
            request = urllib.request.Request(
                address + self.path, body or None, headers, method=self.command
            )
            try:
                with urllib.request.urlopen(request) as answer:
                    status, actual, content = answer.status, answer.headers, answer.read()
            except urllib.error.HTTPError as error:
                status, actual, content = error.code, error.headers, error.read()
            status, content = change(self.command, self.path, status, content)
            self.send_response(status)
            for name, value in actual.items():
                is_own_header = name.lower() in (
                    "content-length",
                    "transfer-encoding",
                    "connection",
                )
                if not is_own_header and not name.lower().startswith("x-amz-checksum"):
                    self.send_header(name, value)
            length = actual["Content-Length"] if self.command == "HEAD" else str(len(content))
            self.send_header("Content-Length", length or "0")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _forward

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
