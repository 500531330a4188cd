"""An MCP server that wants a login, and its authorization server, at one port of this machine that is printed.
The first argument changes one thing: `wrong_issuer` answers with the issuer of another server, `no_pkce` does
not offer S256, `elsewhere` names an authorization server where machines keep credentials, `plain` has a token
endpoint on another machine over plain http, `scope` wants the scope `write` for calls. `GET /expire` ends all
access tokens, `GET /revoke` the refresh tokens too, and `GET /seen` gives what was asked."""

import base64
import hashlib
import http.server
import json
import sys
import urllib.parse

MODE = "".join(sys.argv[1:2])
STATE = {"codes": {}, "access": {}, "refresh": set(), "count": 0, "seen": []}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    @property
    def here(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def send(self, status, content, headers=()):
        body = (content if isinstance(content, str) else json.dumps(content)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        path, _, query = self.path.partition("?")
        asked = dict(urllib.parse.parse_qsl(query))
        STATE["seen"].append(path)
        if path == "/.well-known/oauth-protected-resource/mcp":
            there = "http://169.254.169.254" if MODE == "elsewhere" else self.here
            self.send(200, {"resource": self.here + "/mcp", "authorization_servers": [there], "scopes_supported": ["read"]})
        elif path == "/.well-known/oauth-authorization-server":
            token = "http://198.51.100.7/token" if MODE == "plain" else self.here + "/token"
            self.send(200, {
                "issuer": self.here, "authorization_endpoint": self.here + "/authorize", "token_endpoint": token,
                "registration_endpoint": self.here + "/register", "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["plain"] if MODE == "no_pkce" else ["S256"],
                "authorization_response_iss_parameter_supported": True,
            })
        elif path == "/authorize":
            STATE["count"] += 1
            code = f"code-{STATE['count']}"
            STATE["codes"][code] = asked
            issuer = "https://other.example" if MODE == "wrong_issuer" else self.here
            answer = {"code": code, "state": asked["state"], "iss": issuer}
            self.send(302, "", [("Location", asked["redirect_uri"] + "?" + urllib.parse.urlencode(answer))])
        elif path in ("/expire", "/revoke"):
            STATE["access"].clear()
            if path == "/revoke":
                STATE["refresh"].clear()
            self.send(200, {})
        elif path == "/seen":
            self.send(200, STATE["seen"])
        else:
            self.send(404, {})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        STATE["seen"].append(self.path)
        if self.path == "/register":
            asked = json.loads(body)
            self.send(201, {"client_id": "registered", "redirect_uris": asked["redirect_uris"]})
        elif self.path == "/token":
            self.token(dict(urllib.parse.parse_qsl(body)))
        elif self.path == "/mcp":
            self.mcp(json.loads(body))
        else:
            self.send(404, {})

    def token(self, asked):
        scope = ""
        if asked["grant_type"] == "authorization_code":
            begun = STATE["codes"].pop(asked["code"], None)
            digest = hashlib.sha256(asked["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            good = begun and begun["code_challenge"] == challenge and begun["code_challenge_method"] == "S256"
            good = good and begun["redirect_uri"] == asked["redirect_uri"] and begun["client_id"] == "registered"
            good = good and begun["resource"] == asked["resource"] == self.here + "/mcp"
            scope = begun.get("scope", "") if begun else ""
        else:
            good = asked["refresh_token"] in STATE["refresh"]
            STATE["refresh"].discard(asked["refresh_token"])
            scope = asked.get("scope", "read")
        if not good:
            return self.send(400, {"error": "invalid_grant"})
        STATE["count"] += 1
        access, refresh = f"access-hush-{STATE['count']}", f"refresh-hush-{STATE['count']}"
        STATE["access"][access] = scope.split()
        STATE["refresh"].add(refresh)
        self.send(200, {"access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": 3600,
                        "scope": scope})

    def mcp(self, message):
        sent = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if sent not in STATE["access"]:
            where = f'Bearer resource_metadata="{self.here}/.well-known/oauth-protected-resource/mcp"'
            return self.send(401, {"error": "no"}, [("WWW-Authenticate", where)])
        if "id" not in message:
            return self.send(202, "")
        method = message["method"]
        if method == "tools/call" and MODE == "scope" and "write" not in STATE["access"][sent]:
            wanted = 'Bearer error="insufficient_scope", scope="read write"'
            return self.send(403, {"error": "no"}, [("WWW-Authenticate", wanted)])
        if method == "initialize":
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "locked", "version": "1"}}
        elif method == "tools/list":
            result = {"tools": [{"name": "whoami", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}]}
        elif method == "tools/call":
            result = {"content": [{"type": "text", "text": f"you sent {sent}"}]}
        else:
            return self.send(200, {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "unknown"}})
        self.send(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
