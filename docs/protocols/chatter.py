"""A made-up command-line agent with a JSON shape of its own; docs/protocols/mapped.md describes it.

The words `fail`, `locked`, `vanish` and `wait` in the prompt make it do what they say."""
import argparse
import json
import os
import sys
import time

options = argparse.ArgumentParser()
options.add_argument("--lines", action="store_true")
options.add_argument("--brain", default="acme-1")
options.add_argument("--again")
options.add_argument("--may", choices=["look", "all"], required=True)
options = options.parse_args()
prompt = sys.stdin.read()


def say(ev, **rest):
    print(json.dumps({"ev": ev, **rest}), flush=True)


if "locked" in prompt:
    print("chatter: please log in first", file=sys.stderr)
    sys.exit(77)
say("hi", conversation=options.again or "c-17", using=options.brain)
say("heartbeat")
say("think", bit="Someone said something.")
say("talk", bit="You said: ")
if "wait" in prompt:
    while not os.path.exists("go-on"):
        time.sleep(0.02)
say("talk", bit=prompt.strip())
if "vanish" in prompt:
    sys.exit(0)
if options.may == "all":
    say("do", call={"no": 1, "what": "note", "with": {"file": "note.txt", "words": prompt}})
    with open("note.txt", "w") as note:
        note.write(prompt)
    say("did", call={"no": 1, "fine": True, "gave": "written down"})
say("bill", tokens={"read": 120, "of_that_known": 20, "written": 30}, dollars=0.0012)
if "fail" in prompt:
    say("oops", words="the service answered HTTP 429, slow down")
    say("bye", well=False)
else:
    say("bye", well=True)
