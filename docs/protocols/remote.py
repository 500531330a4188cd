"""A whole remote: an agent that works elsewhere and speaks ca-http-v1."""
import json, os, threading, uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SESSIONS, LOCK, TOKEN = {}, threading.Lock(), os.environ.get("REMOTE_TOKEN")


class Session:
    def __init__(self, body):
        self.id, self.body, self.told, self.heard, self.numbers = uuid.uuid4().hex, body, [], [], set()
        self.changed = threading.Condition(LOCK)
        threading.Thread(target=self.work, daemon=True).start()

    def say(self, **line):
        with self.changed:
            self.told.append(line)
            self.changed.notify_all()

    def hear(self, line, number=None):
        with self.changed:
            if number is None or number not in self.numbers:
                self.heard.append(line)
            self.numbers.add(number)
            self.changed.notify_all()

    def call(self, number, tool, **args):
        """Calls a tool, which the caller carries out, and waits for its answer."""
        self.say(type="tool_call", id=number, tool=tool, args=args)
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.heard)
                line = self.heard.pop(0)
            if line["type"] == "shutdown":
                raise SystemExit(line.get("reason"))
            if line["type"] == "tool_result" and line["id"] == number:
                return line["value"] if line["ok"] else {"error": line["error"]}

    def work(self):
        try:
            files = self.call("1", "list_files", path=".").get("files", [])
            self.say(type="progress", summary="looked around", cost={"usd": 0.001})
            self.say(type="complete", output={"text": f"You said {self.body['prompt']!r}: {len(files)} files."})
        except SystemExit as told:
            self.say(type="failed", reason=str(told))


class Remote(BaseHTTPRequestHandler):
    def answer(self, status, **body):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode() if body else b"")

    def do(self):
        _, _, _, id, what = (self.path + "//").split("/")[:5]
        session = SESSIONS.get(id)
        if TOKEN and self.headers["Authorization"] != f"Bearer {TOKEN}":
            return self.answer(401, code="unauthorized")
        try:
            given = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "{}")
            if (self.command, self.path) == ("POST", "/v1/sessions"):
                return self.create(given, given["runId"])
            if session is None:
                return self.answer(404, code="not_found")
            if (self.command, what) == ("GET", "events"):
                return self.stream(session, int(self.headers["Last-Event-ID"] or 0))
            if (self.command, what) == ("POST", "input") and given["type"]:
                session.hear(given, self.headers["Ostler-Input"])
                return self.answer(202)
        except (ValueError, KeyError, TypeError) as error:
            return self.answer(400, code="usage", message=repr(error))
        if self.command != "DELETE" or what:
            return self.answer(405, code="method_not_allowed")
        session.hear({"type": "shutdown", "reason": "cancelled"})
        SESSIONS.pop(id, None)
        self.answer(204)

    do_GET = do_POST = do_DELETE = do

    def create(self, body, run):
        with LOCK:
            known = [session for session in SESSIONS.values() if session.body["runId"] == run]
            session = known[0] if known else Session(body)
            SESSIONS[session.id] = session
        self.answer(200 if known else 201, id=session.id, protocol="ca-http-v1")

    def stream(self, session, at):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        while not (at and session.told[at - 1]["type"] in ("complete", "failed")):
            with session.changed:
                session.changed.wait_for(lambda: len(session.told) > at, timeout=15)
            if len(session.told) > at:
                at += 1
                self.wfile.write(f"id: {at}\ndata: {json.dumps(session.told[at - 1])}\n\n".encode())
            else:
                self.wfile.write(b": still here\n\n")


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("REMOTE_PORT", "7719"))), Remote)
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
