"""A whole remote: an agent that works elsewhere and speaks ca-http-v1."""
import http.server, json, os, queue, threading

SESSIONS, NEWS, TOKEN = {}, threading.Condition(), os.environ.get("REMOTE_TOKEN")
PROMPTS = {}  # what was said in each conversation, by the session that it was last in


class Session:
    def __init__(self, body):
        self.body, self.told, self.heard, self.numbers = body, [], queue.Queue(), set()
        self.fence = body.get("fencingToken") or 0
        self.before = PROMPTS.get(body.get("sessionResume"), [])

    def say(self, **line):
        with NEWS:
            self.told.append(line)
            NEWS.notify_all()

    def hear(self, line, number=None):
        if number is None or number not in self.numbers:
            self.heard.put(line)
        self.numbers.add(number)

    def admits(self, fence):  # whoever has an older fence does not own the run any more
        fence = self.fence if fence is None else int(fence)
        self.fence = max(self.fence, fence)
        return fence == self.fence

    def work(self):
        self.say(type="tool_call", id="1", tool="list_files", args={"path": "."})  # the caller's files
        line = next(line for line in iter(self.heard.get, None) if line["type"] in ("tool_result", "shutdown"))
        if not line.get("ok"):
            return self.say(type="failed", reason=line.get("reason") or line.get("error"))
        self.say(type="progress", summary="looked around", cost={"usd": 0.001})
        PROMPTS[self.body["runId"]] = self.before + [self.body["prompt"]]
        before = f" Before that you said {self.before[-1]!r}." if self.before else ""
        files = len(line["value"]["files"])
        self.say(type="complete", output=f"You said {self.body['prompt']!r}: {files} files.{before}")


class Remote(http.server.BaseHTTPRequestHandler):
    def answer(self, status, kind="application/json", **body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode() if body else b"")

    def do(self):
        if self.path == "/healthz":
            return self.answer(200, ok=True, protocol="ca-http-v1")
        if TOKEN and self.headers["Authorization"] != f"Bearer {TOKEN}":
            return self.answer(401, code="unauthorized")
        try:
            given = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "{}")
            match self.command, self.path.split("/")[1:]:
                case "POST", ["v1", "sessions"]:
                    self.create(given, given["runId"])
                case "GET", ["v1", "sessions", id, "events"] if id in SESSIONS:
                    self.stream(SESSIONS[id], int(self.headers["Last-Event-ID"] or 0))
                case "POST", ["v1", "sessions", id, "input"] if id in SESSIONS and given["type"]:
                    if not SESSIONS[id].admits(self.headers["Ostler-Fence"]):
                        return self.answer(409, code="fence_stale")
                    SESSIONS[id].hear(given, self.headers["Ostler-Input"])
                    self.answer(202)
                case "DELETE", ["v1", "sessions", id] if id in SESSIONS:
                    SESSIONS.pop(id).hear({"type": "shutdown", "reason": "cancelled"})
                    self.answer(204)
                case _:
                    self.answer(404, code="not_found")
        except (ValueError, KeyError, TypeError) as error:
            self.answer(400, code="usage", message=repr(error))

    do_GET = do_POST = do_DELETE = do

    def create(self, body, run):
        if run not in SESSIONS and body.get("sessionResume") not in [None, *PROMPTS]:
            return self.answer(409, code="native_session_unknown")
        session = SESSIONS.setdefault(run, Session(body))  # the same run is the same session
        if new := session.body is body:
            threading.Thread(target=session.work, daemon=True).start()
        self.answer(201 if new else 200, id=run, protocol="ca-http-v1", capabilities={"resume": True})

    def stream(self, session, at):
        self.answer(200, "text/event-stream")
        while not (at and session.told[at - 1]["type"] in ("complete", "failed")):
            with NEWS:
                more = NEWS.wait_for(lambda: len(session.told) > at, timeout=15)
            line = f"id: {at + 1}\ndata: {json.dumps(session.told[at])}" if more else ": still here"
            self.wfile.write(f"{line}\n\n".encode())
            at += more


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("REMOTE_PORT", "7719"))), Remote)
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
