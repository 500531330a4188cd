"""A whole agent in fifty lines: it reads its task, looks around, answers and says what it cost.

It can be resumed: a file by the name of each conversation holds what was said in it.
"""
import json
import pathlib
import sys
import uuid


def say(**event):
    print(json.dumps(event), flush=True)


def call(number, tool, **args):
    """Calls a tool and waits for its answer; leaves when told to, or when nobody is there."""
    say(type="tool_call", id=number, tool=tool, args=args)
    for line in sys.stdin:
        heard = json.loads(line)
        if heard["type"] == "shutdown":
            sys.exit(0)
        if heard["type"] == "tool_result" and heard["id"] == number:
            return heard["value"] if heard["ok"] else give_up("tool_failed", f"{tool}: {heard['error']}")
    sys.exit(1)


def give_up(reason, details):
    say(type="failed", reason=reason, details=details)
    sys.exit(1)


def earlier(session):
    """The file of a conversation, and what was said in it before."""
    try:
        name = str(uuid.UUID(session)) if session else str(uuid.uuid4())
        file = pathlib.Path.home() / ".agent.py" / f"{name}.json"
        return name, file, json.loads(file.read_text()) if session else []
    except (OSError, ValueError):
        give_up("native_session_unknown", session)


say(type="hello", accepts=["resume"])
task = call("1", "read_task")
name, file, said = earlier(task.get("session"))
say(type="event", event={"kind": "session", "native_session": name, "resumed": bool(said)})
say(type="progress", summary="looking around", beliefs=[f"the task is {task['title']!r}"])
files = call("2", "list_files", path=".")["files"]
answer = f"You said {task['prompt']!r}, and I see {len(files)} files."
if said:
    answer += f" Before that you said {said[-1]!r}."
file.parent.mkdir(exist_ok=True)
file.write_text(json.dumps(said + [task["prompt"]]))
say(type="event", event={"kind": "assistant_text", "text": answer})
say(type="complete", output={"text": answer}, cost={"inputTokens": 120, "outputTokens": 30, "usd": 0.001})
