"""An agent that does not share our disk: it works on a snapshot and sends a patch back."""

import io, json, os, subprocess, sys, tarfile, urllib.request

os.chdir(sys.argv[1])
url = os.environ["OSTLER_API_URL"] + "/api/v1/runs/" + os.environ["OSTLER_RUN_ID"] + "/workspace"
asked = urllib.request.Request(url, headers={"authorization": "Bearer " + os.environ["OSTLER_LEASE_TOKEN"]})
with urllib.request.urlopen(asked) as answer:
    tar = answer.read()
    said = (answer.headers["content-type"], int(answer.headers["content-length"]))
assert said == ("application/x-tar", len(tar)), said
with tarfile.open(fileobj=io.BytesIO(tar)) as packed:
    names = sorted(packed.getnames())
    packed.extractall(".", filter="fully_trusted")

def git(*args):
    return subprocess.run(["git", "-c", "user.name=r", "-c", "user.email=r@example.invalid", *args],
                          check=True, capture_output=True, text=True).stdout

git("init", "-q")
git("add", "-A", "-f")
git("commit", "-qm", "as it came")
with open("src/one.txt", "a") as file: file.write("and more\n")
with open("café.txt", "w") as file: file.write("tout\nautre\n")
os.makedirs("new")
with open("new/three.sh", "w") as file: file.write("#!/bin/sh\n")
os.chmod("new/three.sh", 0o755)
open("new/empty", "w").close()
os.remove("gone.txt")
os.rename("old.sh", "moved.sh")
git("add", "-A", "-f")
patch = git("diff", "--cached", "-M")

def say(word):
    print(json.dumps(word), flush=True)

say({"type": "event", "event": {"kind": "log", "stream": "stdout", "text": json.dumps(names)}})
say({"type": "tool_call", "id": "1", "tool": "apply_patch", "args": {"patch": patch}})
for line in sys.stdin:
    answer = json.loads(line)
    if answer.get("type") == "tool_result" and answer.get("id") == "1":
        break
say({"type": "complete", "output": {"answer": answer}})
