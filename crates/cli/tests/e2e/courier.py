"""Stands between a caller's run and a session elsewhere: what the session tells goes to stdout, what
the run says goes to the session. argv has the address and the prompt."""
import json, os, sys, threading, urllib.request

base, prompt = sys.argv[1:3]
headers = {"Authorization": f"Bearer {os.environ['REMOTE_TOKEN']}", "Content-Type": "application/json"}


def ask(method, path, body=None, **more):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(base + path, data, {**headers, **more}, method=method)
    return urllib.request.urlopen(request)


body = {"runId": os.environ["CA_RUN_ID"], "prompt": prompt, "protocol": "ca-http-v1",
        "fencingToken": os.environ["CA_FENCING_TOKEN"]}
path = "/v1/sessions/" + json.load(ask("POST", "/v1/sessions", body))["id"]


def send():
    for number, line in enumerate(sys.stdin, 1):
        ask("POST", f"{path}/input", json.loads(line), **{"Ostler-Input": str(number)})


threading.Thread(target=send, daemon=True).start()
for line in ask("GET", f"{path}/events"):
    if line.startswith(b"data: "):
        sys.stdout.write(line[6:].decode())
        sys.stdout.flush()
ask("DELETE", path)
os._exit(0)
