"""A small MCP server over HTTP, with TLS when it is given a certificate and its key. It has one tool,
`add`, and writes what it is asked to a file, a line for each request: the path and the Authorization.
/mcp answers; /moved redirects there; /away redirects to the address it was given; /loop to itself."""

import http.server
import json
import ssl
import sys

seen, away, *pair = sys.argv[1:]
TOOL = {"name": "add", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}


def answer(method, params):
    if method == "initialize":
        info = {"name": "small", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [TOOL]}
    given = params["arguments"]
    return {"content": [{"type": "text", "text": str(given["a"] + given["b"])}]}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def note(self):
        with open(seen, "a") as file:
            file.write(f"{self.path} {self.headers.get('Authorization', '-')}\n")

    def do_GET(self):
        self.note()
        self.reply(405)

    do_DELETE = do_GET

    def do_POST(self):
        self.note()
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        to = {"/moved": "/mcp", "/away": away, "/loop": "/loop"}.get(self.path)
        if to:
            return self.reply(307, Location=to)
        if "id" not in message:
            return self.reply(202)
        result = answer(message["method"], message.get("params") or {})
        body = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        self.reply(200, json.dumps(body).encode(), Content_Type="application/json")

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
if pair:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair)
    server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
