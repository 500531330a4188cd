"""The remote of the docs with one thing broken, for the judge: argv has its path and the fault."""
import importlib.util, json, sys

sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("remote", sys.argv[1])
remote = importlib.util.module_from_spec(spec)
spec.loader.exec_module(remote)
FAULT, Remote, Session = sys.argv[2], remote.Remote, remote.Session
answer, do, stream, hear, say = Remote.answer, Remote.do, Remote.stream, Session.hear, Session.say


class Bad(Remote):
    def log_message(self, *_):
        pass

    def answer(self, status, *kind, **body):
        where = (self.command, self.path)
        opens = where == ("POST", "/v1/sessions") and status in (200, 201)
        if FAULT == "create" and opens:
            status = 202
        if FAULT == "create.protocol" and opens:
            body["protocol"] = "something-else"
        form = "input.form" if self.path.endswith("/input") else "create.form"
        if FAULT == form and status == 400:
            status, body = 500, {}
        if FAULT == "auth" and status == 401:
            status = 200
        if FAULT == "unknown" and status == 404:
            status = 200
        if FAULT == "unknown as closed" and status == 404:
            status = 410
        if FAULT == "input" and status == 202:
            status = 500
        if FAULT == "delete" and status == 204:
            status = 500
        answer(self, status, *kind, **body)

    def do(self):
        if FAULT == "health" and self.path == "/healthz":
            return self.answer(404)
        if FAULT == "delete.gone" and self.command == "DELETE" and "no-such" not in self.path:
            return self.answer(204)
        do(self)

    do_GET = do_POST = do_DELETE = do

    def create(self, body, run):
        if FAULT == "create.again":
            body["runId"] = run = f"{run}-{len(remote.SESSIONS)}"
        if FAULT == "resume":
            body["sessionResume"] = None
        Remote.create(self, body, run)

    def stream(self, session, at):
        if FAULT == "events.reconnect" and at:
            at = 0
        if FAULT in ("events.stream", "events.frames", "events.ids", "events.next", "end.closes"):
            self.wfile = Pen(self.wfile)
        stream(self, session, at)
        if FAULT == "end.last":
            late = json.dumps({"type": "comment", "text": "one more thing"})
            self.wfile.write(f"id: {len(session.told) + 1}\ndata: {late}\n\n".encode())
        if FAULT == "end.closes":
            remote.threading.Event().wait(60)


class Pen:
    """Writes what it is given with one thing wrong."""

    def __init__(self, file):
        self.file, self.flush, self.close, self.closed = file, file.flush, file.close, False

    def write(self, data):
        text = data.decode()
        if FAULT == "events.stream":
            text = text.replace("text/event-stream", "text/plain")
        if FAULT == "events.frames" and text.startswith("id:"):
            text = text.split("\n")[0] + "\ndata: not json\n\n"
        if FAULT == "events.ids" and text.startswith("id:"):
            text = "id: 5" + text[text.index("\n"):]
        if FAULT == "events.next" and text.startswith("id:"):
            number, rest = text[4:].split("\n", 1)
            text = f"id: {int(number) * 2}\n{rest}"
        return self.file.write(text.encode())


def bad_say(self, **line):
    if FAULT == "events.types":
        line["type"] = "strange" if line["type"] == "progress" else line["type"]
    if FAULT == "end" and line["type"] in ("complete", "failed"):
        return
    say(self, **line)


def bad_hear(self, line, number=None):
    if FAULT == "shutdown" and line["type"] == "shutdown":
        return
    hear(self, line, number)


Session.say, Session.hear = bad_say, bad_hear
if FAULT == "input.fence":
    Session.admits = lambda self, fence: True
server = remote.http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bad)
server.daemon_threads = True
print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
