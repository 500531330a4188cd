"""A small remote that speaks ca-http-v1 over TLS and wants a certificate of whoever asks: its own
certificate, its key and the authority of its callers are given. It tells its port, and plays one
session that completes at once."""

import http.server
import json
import ssl
import sys

cert, key, authority = sys.argv[1:]


class Handler(http.server.BaseHTTPRequestHandler):
    def reply(self, status, body=b"", kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.reply(201, json.dumps({"id": "s1"}).encode())

    def do_GET(self):
        done = {"type": "complete", "output": {"text": "by certificate"}}
        self.reply(200, f"id: 1\ndata: {json.dumps(done)}\n\n".encode(), "text/event-stream")

    def do_DELETE(self):
        self.reply(204)

    def log_message(self, *_):
        pass


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(cert, key)
context.load_verify_locations(authority)
context.verify_mode = ssl.CERT_REQUIRED


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def finish_request(self, request, client_address):
        # The handshake is each caller's own matter, and no failure of the server.
        try:
            super().finish_request(context.wrap_socket(request, server_side=True), client_address)
        except (ssl.SSLError, OSError):
            pass


server = Server(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
