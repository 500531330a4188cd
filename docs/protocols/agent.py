"""A whole agent in thirty lines: it reads its task, looks around, answers and says what it cost."""
import json
import sys


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
            return heard["value"] if heard["ok"] else give_up(f"{tool}: {heard['error']}")
    sys.exit(1)


def give_up(details):
    say(type="failed", reason="tool_failed", details=details)
    sys.exit(1)


task = call("1", "read_task")
say(type="progress", summary="looking around", beliefs=[f"the task is {task['title']!r}"])
files = call("2", "list_files", path=".")["files"]
answer = f"You said {task['prompt']!r}, and I see {len(files)} files."
say(type="event", event={"kind": "assistant_text", "text": answer})
say(type="complete", output={"text": answer}, cost={"inputTokens": 120, "outputTokens": 30, "usd": 0.001})
