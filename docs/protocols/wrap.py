"""Turns a command that reads a prompt on stdin and prints text into an agent of this protocol.

    wrap.py [--tool-begins REGEX] [--tool-ends REGEX] -- COMMAND [ARGUMENT...]

Each line the command prints becomes an assistant_text event. Lines that match the two patterns
become calls of the command's own tools: --tool-begins has the groups (?P<name>) and perhaps
(?P<input>), --tool-ends perhaps (?P<output>). Exit 0 is complete, anything else is failed, and a
shutdown reaches the command as SIGTERM. Its stderr goes where ours goes.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import threading

asked = threading.Event()  # set when a shutdown was heard


def say(**event):
    print(json.dumps(event), flush=True)


def show(kind, **fields):
    say(type="event", event={"kind": kind, **fields})


def read_task():
    """The task, or why there is none."""
    say(type="tool_call", id="1", tool="read_task", args={})
    for line in sys.stdin:
        heard = json.loads(line)
        if heard["type"] == "shutdown":
            sys.exit(0)
        if heard["type"] == "tool_result" and heard["id"] == "1":
            if heard["ok"]:
                return heard["value"]
            fail("tool_failed", heard["error"])
    sys.exit(1)


def fail(reason, details):
    say(type="failed", reason=reason, details=details)
    sys.exit(1)


def listen(command):
    """Reads on while the command works: a shutdown must be heard at any time."""
    for line in sys.stdin:
        if json.loads(line)["type"] == "shutdown":
            asked.set()
            command.terminate()


def feed(command, prompt):
    try:
        command.stdin.write(prompt)
        command.stdin.close()
    except BrokenPipeError:
        pass  # A command may well answer without having read everything.


class Translator:
    """Lines of the command, one after the other, into events."""

    def __init__(self, begins, ends):
        self.begins, self.ends = (re.compile(p) if p else None for p in (begins, ends))
        self.calls, self.open = 0, None

    def hear(self, line):
        begun = self.begins and self.begins.search(line)
        ended = self.open and self.ends and self.ends.search(line)
        if begun:
            self.close("ok", "")
            groups = begun.groupdict()
            self.calls += 1
            self.open = f"native_{self.calls}"
            show("tool_use", tool_call_id=self.open, name=groups.get("name") or "tool",
                 input=groups.get("input") or "")
        elif ended:
            self.close("ok", ended.groupdict().get("output") or "")
        else:
            show("assistant_text", text=line + "\n", block="stdout", delta=True)

    def close(self, status, output):
        """Every call that was begun has an end, whatever became of the command."""
        if self.open:
            show("tool_result", tool_call_id=self.open, status=status, output=output)
            self.open = None


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--tool-begins")
    parser.add_argument("--tool-ends")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()

    task = read_task()
    prompt = "\n\n".join(part for part in (task.get("system_prompt"), task["prompt"]) if part)
    pipe = subprocess.PIPE
    try:
        command = subprocess.Popen(options.command, stdin=pipe, stdout=pipe,
                                   encoding="utf-8", errors="replace")
    except OSError as error:
        fail("not_started", str(error))
    threading.Thread(target=listen, args=(command,), daemon=True).start()
    threading.Thread(target=feed, args=(command, prompt), daemon=True).start()

    translator = Translator(options.tool_begins, options.tool_ends)
    for line in command.stdout:
        translator.hear(line.rstrip("\n"))
    code = command.wait()
    translator.close("ok" if code == 0 else "error", "")
    if not asked.is_set() and code == 0:
        say(type="complete", output={"exit_code": code})
    elif not asked.is_set():
        say(type="failed", reason="command_failed", details=f"{options.command[0]} ended with {code}")
    # Not sys.exit: the thread that listens may sit in a read, which Python would wait for.
    os._exit(0 if asked.is_set() else min(abs(code), 255))


main()
