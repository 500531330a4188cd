"""A small MCP server of revision 2026-07-28 alone, on standard input and output or, with the argument
`http`, at a port of this machine that it prints. It refuses requests without the metadata and headers
that the revision requires. Its tools: `picture` gives an image of so many bytes of base64, `slow` reports
progress and answers, `stuck` reports progress and waits until it is cancelled, and then writes the file
`cancelled` in its working directory. `old` after `http` makes it a server of the retired SSE transport,
and `login` one that answers 401."""

import http.server
import json
import os
import sys
import threading

REVISION = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
SCHEMA = {"type": "object"}
READS = {"readOnlyHint": True}
TOOLS = [{"name": name, "inputSchema": SCHEMA, "annotations": READS} for name in ("picture", "slow", "stuck")]
CANCELLED = threading.Event()


def error(code, message, data=None):
    return {"error": {"code": code, "message": message} | ({"data": data} if data else {})}


def answer(message, notify):
    """The result or error of a request."""
    method, params = message["method"], message.get("params") or {}
    meta = params.get("_meta") or {}
    if method == "initialize":
        return error(-32601, "Method not found: initialize")
    if meta.get(PREFIX + "protocolVersion") != REVISION:
        return error(-32022, "Unsupported protocol version", {"supported": [REVISION], "requested": "?"})
    if PREFIX + "clientInfo" not in meta or PREFIX + "clientCapabilities" not in meta:
        return error(-32602, "the request has no metadata of its client")
    if method == "server/discover":
        info = {"name": "modern", "version": "1"}
        cache = {"ttlMs": 0, "cacheScope": "private"}
        return {"result": {"resultType": "complete", "supportedVersions": [REVISION], "serverInfo": info,
                           "capabilities": {"tools": {}}} | cache}
    if method == "tools/list":
        return {"result": {"resultType": "complete", "tools": TOOLS, "ttlMs": 0, "cacheScope": "private"}}
    if method != "tools/call":
        return error(-32601, "Method not found: " + method)
    name, arguments, token = params["name"], params.get("arguments") or {}, meta.get("progressToken")
    text = {"type": "text", "text": name}
    if name == "picture":
        image = {"type": "image", "data": "A" * arguments["bytes"], "mimeType": "image/png"}
        return {"result": {"resultType": "complete", "content": [text, image]}}
    for done in (1, 2, 3):
        notify({"progressToken": token, "progress": done, "total": 3, "message": f"step {done}"})
    if name == "stuck":
        CANCELLED.wait(60)
        return None
    return {"result": {"resultType": "complete", "content": [text]}}


def cancelled():
    with open("cancelled", "w") as file:
        file.write("yes")
    CANCELLED.set()


def stdio():
    writing = threading.Lock()

    def write(message):
        with writing:
            print(json.dumps({"jsonrpc": "2.0"} | message), flush=True)

    def serve(message):
        reply = answer(message, lambda told: write({"method": "notifications/progress", "params": told}))
        if reply is not None:
            write({"id": message["id"]} | reply)

    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "notifications/cancelled":
            cancelled()
        elif "id" in message:
            threading.Thread(target=serve, args=(message,), daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    mode = ""

    def log_message(self, *_):
        pass

    def send(self, status, kind, body, headers=()):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.mode == "old":
            self.send(200, "text/event-stream", b"event: endpoint\ndata: /messages?session=1\n\n")
        else:
            self.send(405, "text/plain", b"POST only")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.mode == "old":
            return self.send(405, "text/html", b"<h1>no</h1>")
        if self.mode == "login":
            return self.send(401, "text/plain", b"no", [("WWW-Authenticate", "Bearer")])
        message = json.loads(body)
        if "id" not in message:
            return self.send(202, "text/plain", b"")
        named = (message.get("params") or {}).get("name")
        wanted = {"MCP-Protocol-Version": REVISION, "Mcp-Method": message["method"]}
        wanted |= {"Mcp-Name": named} if named else {}
        wrong = [name for name, value in wanted.items() if self.headers.get(name) != value]
        if wrong and message["method"] != "initialize":
            reply = error(-32020, "missing or wrong header: " + ", ".join(wrong))
            return self.send(400, "application/json", json.dumps({"jsonrpc": "2.0", "id": message["id"]} | reply).encode())
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()

        def event(content):
            self.wfile.write(b"data: " + json.dumps({"jsonrpc": "2.0"} | content).encode() + b"\n\n")
            self.wfile.flush()

        if named == "stuck":
            # By HTTP a call is cancelled by closing its stream.
            threading.Thread(target=self.watch, daemon=True).start()
        reply = answer(message, lambda told: event({"method": "notifications/progress", "params": told}))
        if reply is not None:
            event({"id": message["id"]} | reply)
        self.close_connection = True

    def watch(self):
        try:
            gone = self.connection.recv(1) == b""
        except OSError:
            gone = True
        if gone:
            cancelled()


if sys.argv[1:2] == ["http"]:
    Handler.mode = "".join(sys.argv[2:3])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
else:
    stdio()
