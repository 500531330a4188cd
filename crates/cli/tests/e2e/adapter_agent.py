"""A command-line agent with JSON lines of its own, for `ostler conformance agent`.

It is a good one, except for the one fault that --fault names."""
import argparse
import json
import os
import re
import signal
import sys
import time

options = argparse.ArgumentParser()
options.add_argument("--fault", default="")
options.add_argument("--may", default="all")
options.add_argument("--session")
options.add_argument("--system", default="")
options = options.parse_args()
fault = options.fault


def say(ev, **rest):
    print(json.dumps({"ev": ev, **rest}), flush=True)


if fault == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if fault == "crash":
    sys.exit("out of luck")
prompt = sys.stdin.read()
known = "c-1"
session = options.session or known
if options.session not in (None, known):
    say("lost", stubborn=fault == "stubborn")
    sys.exit(3)
if fault == "forgetful" and options.session:
    session = "c-2"
where = "/" if fault == "astray" else os.getcwd()
say("hi", session=session, cwd=where)
if fault == "babble":
    say("never heard of")
if "refused.txt" in prompt and (options.may == "all" or fault == "unruly"):
    with open("refused.txt", "w") as file:
        file.write("refused")
if "Count slowly" in prompt:
    for number in range(600 if fault == "deaf" else 6000):
        say("talk", bit=f"{number}\n")
        time.sleep(0.1)
code = re.search(r"heron-\d+", options.system + prompt)
answer = "" if fault in ("mute", "wordless") else (code.group() if code else "hello")
if fault != "penniless":
    none = fault == "blank"
    say("bill", read=0 if none else 12, wrote=0 if none else 3)
if fault == "abrupt":
    sys.exit(0)
if fault == "wordless":
    say("do", call="1")
    say("did", call="1")
if answer:
    say("talk", bit=answer)
say("bye", well=fault != "sad")
