"""An agent for tests of a lost lease: lease_agent.py PROTOCOL LOG [BINARY'S OWN ARGUMENTS].

It works until it is killed. It writes to LOG, in order, each line of its standard input and each SIGTERM. An
ACP turn that is cancelled is ended as the protocol says; the program lives on.
"""

import json
import os
import signal
import sys

PROTOCOL = sys.argv[1]
LOG = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def note(text):
    os.write(LOG, (text.rstrip("\n") + "\n").encode())


def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def working():
    """Says in the words of the protocol that the work goes on."""
    if PROTOCOL == "process":
        say({"type": "progress", "summary": "working"})
    elif PROTOCOL == "claude":
        text = [{"type": "text", "text": "working"}]
        message = {"id": "m1", "role": "assistant", "model": "m", "content": text}
        say({"type": "assistant", "session_id": "s1", "message": message})
    elif PROTOCOL == "acp":
        text = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "working"}}
        say({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s1", "update": text}})


prompt_id = None


def hear(line):
    global prompt_id
    message = json.loads(line)
    reply = lambda result: say({"jsonrpc": "2.0", "id": message["id"], "result": result})
    method = message.get("method") or message.get("type")
    if method == "initialize":
        reply({"protocolVersion": 1, "agentCapabilities": {}})
    elif method == "session/new":
        reply({"sessionId": "s1"})
    elif method == "session/prompt":
        prompt_id = message["id"]
        working()
    elif method == "session/cancel":
        say({"jsonrpc": "2.0", "id": prompt_id, "result": {"stopReason": "cancelled"}})
    elif method == "user":
        say({"type": "system", "subtype": "init", "session_id": "s1", "model": "m", "tools": []})
        working()


signal.signal(signal.SIGTERM, lambda *_: note("SIGTERM"))
if PROTOCOL == "process":
    working()
for line in sys.stdin:
    note(line)
    hear(line)
while True:
    signal.pause()
