"""The HTTP API of Acme, an imaginary cloud: servers, load balancers and routes in memory.

python acme_cloud.py --port 8090 --server node-0 --server node-1
"""

from __future__ import annotations

import argparse
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

Resource = dict[str, Any]


class AcmeCloud:
    """The state of the cloud. Load balancers are active from the second request for them on."""

    def __init__(self, token: str = "secret") -> None:
        self.token = token
        self.resources: dict[str, dict[str, Resource]] = {"servers": {}, "load-balancers": {}, "routes": {}}
        self.requests: list[str] = []
        self._lock = threading.Lock()

    def add_server(self, name: str, **fields: Any) -> None:
        """Add a server; its ID is not its name."""
        number = len(self.resources["servers"]) + 1
        server = {
            "id": f"srv-{number}",
            "name": name,
            "type": "c2.large",
            "zone": "north-1",
            "region": "north",
            "state": "running",
            "private_ip": f"10.1.0.{number}",
            "public_ip": f"198.51.100.{number}",
            **fields,
        }
        self.resources["servers"][server["id"]] = server

    def handle(self, method: str, path: str, token: str, body: Any) -> tuple[int, Any]:
        """Handle a request to `/v1/<collection>[/<id>]`; return the status code and the body."""
        with self._lock:
            self.requests.append(f"{method} {path}")
            if token != self.token:
                return 401, {"error": "wrong token"}
            _, _, collection, *rest = path.split("/")
            items = self.resources.get(collection)
            if items is None:
                return 404, {"error": f"no collection {collection}"}
            if not rest:
                return 200, list(items.values())
            key = unquote(rest[0])
            if method == "PUT":
                items[key] = self._stored(collection, key, body, items.get(key))
            elif key not in items:
                return 404, {"error": f"{collection} {key} does not exist"}
            elif method == "DELETE":
                del items[key]
                return 204, None
            return 200, items[key]

    def _stored(self, collection: str, key: str, body: Resource, before: Resource | None) -> Resource:
        if collection != "load-balancers":
            return {**body, "id": key}
        if before is None:
            address = f"192.0.2.{len(self.resources['load-balancers']) + 1}"
            return {**body, "id": key, "state": "provisioning", "address": address}
        return {**before, **body, "state": "active"}

    def start(self, port: int = 0) -> ThreadingHTTPServer:
        """Serve the API in a thread; `shutdown()` stops it."""
        server = ThreadingHTTPServer(("127.0.0.1", port), _handler_of(self))
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return server


def _handler_of(cloud: AcmeCloud) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
            body = json.loads(content) if content else None
            status, result = cloud.handle(self.command, urlsplit(self.path).path, token, body)
            data = json.dumps(result).encode() if result is not None else b""
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_DELETE = _handle  # noqa: N815 - names of http.server

        def log_message(self, format: str, *args: object) -> None:
            return

    return Handler


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--port", type=int, default=8090)
    parser.add_argument("--server", action="append", default=[], help="name of a server; can be repeated")
    arguments = parser.parse_args()
    cloud = AcmeCloud()
    for name in arguments.server:
        cloud.add_server(name)
    server = cloud.start(arguments.port)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
