"""A server between the browser and Strobe: it writes down what the page asks, holds streams back, and fails on demand."""
import http.client
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Proxy:
    def __init__(self, upstream_port, page_folder=None):
        """page_folder: the page's files come from there, not from the server."""
        self.page_folder = page_folder
        self.upstream_port = upstream_port
        self.asked = []           # (path, body) of every POST
        self.fail_next = None     # (status, JSON) instead of the next POST's answer
        self.cut_after = None     # events after which the next streams' connections are cut
        self.change_plain = None  # (from, to), bytes: in answers without DFlash
        self.hold_after = None    # events after which streams wait for release()
        self.go_on = threading.Event()
        self.server = None
        self.port = 0
        self.start()

    def start(self):
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self.server = _Server(("127.0.0.1", self.port), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self):
        """Nobody listens on the port any more, and open connections are closed."""
        self.server.shutdown()
        self.server.server_close()
        self.server.close_connections()

    def hold(self, events):
        self.go_on.clear()
        self.hold_after = events

    def release(self):
        self.hold_after = None
        self.go_on.set()

    def reset(self):
        self.asked.clear()
        self.fail_next = self.cut_after = self.change_plain = None
        self.release()

    def chats(self):
        return [body for path, body in self.asked if path == "/v1/chat/completions"]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, *arguments):
        self.connections = set()
        super().__init__(*arguments)

    def process_request(self, request, client_address):
        self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request):
        self.connections.discard(request)
        super().shutdown_request(request)

    def close_connections(self):
        for connection in list(self.connections):
            try:
                connection.shutdown(2)
            except OSError:
                pass  # it has gone already

    def handle_error(self, request, client_address):
        pass  # a browser that goes away is no news


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner = None

    def log_message(self, *_):
        pass

    def do_GET(self):
        folder = self.owner.page_folder
        name = "index.html" if self.path == "/" else self.path.removeprefix("/page/")
        if folder and (folder / name).is_file():
            types = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
            return self.answer(200, types[(folder / name).suffix], (folder / name).read_bytes())
        self.forward(None)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.owner.asked.append((self.path, json.loads(body)))
        failure, self.owner.fail_next = self.owner.fail_next, None
        if failure:
            status, answer = failure
            return self.answer(status, "application/json", json.dumps(answer).encode())
        self.forward(body)

    def answer(self, status, content_type, body, headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def forward(self, body):
        upstream = http.client.HTTPConnection("127.0.0.1", self.owner.upstream_port)
        kept = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
        try:
            upstream.request(self.command, self.path, body, kept)
            response = upstream.getresponse()
            if response.getheader("Content-Type") == "text/event-stream":
                return self.stream(response, b'"speculative": "off"' in body or b'"speculative":"off"' in body)
            passed = [(name, value) for name, value in response.getheaders() if name.lower() in
                      ("etag", "cache-control", "content-security-policy", "x-content-type-options", "vary")]
            self.answer(response.status, response.getheader("Content-Type", ""), response.read(), passed)
        finally:
            upstream.close()

    def stream(self, response, plain):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        events = 0
        while True:
            line = response.readline()
            if not line:
                self.wfile.write(b"0\r\n\r\n")
                return
            if plain and self.owner.change_plain:
                line = line.replace(*self.owner.change_plain)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.flush()
            if line != b"\n":
                continue
            events += 1
            if self.owner.hold_after is not None and events >= self.owner.hold_after:
                self.owner.go_on.wait()
            if self.owner.cut_after is not None and events >= self.owner.cut_after:
                self.close_connection = True
                self.connection.shutdown(2)
                return
