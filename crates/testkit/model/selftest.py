#!/usr/bin/env python3
"""Checks scripted_model.py: every protocol, streaming and not, tools chosen from the request, errors.  Exit 0 = good."""
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
SHELL = {"type": "object", "properties": {"command": {"type": "string"}, "why": {"type": "string"}},
         "required": ["command", "why"]}


def req(kind, stream, after_tool=False):
    if kind == "anthropic":
        m = [{"role": "user", "content": "hi"}]
        if after_tool:
            m += [{"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]},
                  {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]}]
        return "/v1/messages", {"model": "m", "max_tokens": 900, "stream": stream, "messages": m,
                                "tools": [{"name": "Bash", "input_schema": SHELL}]}
    if kind == "chat":
        m = [{"role": "user", "content": "hi"}]
        if after_tool:
            m += [{"role": "assistant", "tool_calls": [{"id": "t", "type": "function",
                                                        "function": {"name": "bash", "arguments": "{}"}}]},
                  {"role": "tool", "tool_call_id": "t", "content": "ok"}]
        return "/v1/chat/completions", {"model": "m", "stream": stream, "stream_options": {"include_usage": True},
                                        "messages": m, "tools": [{"type": "function", "function": {
                                            "name": "bash", "parameters": SHELL}}]}
    if kind == "responses":
        i = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}]
        if after_tool:
            i += [{"type": "function_call", "call_id": "t", "name": "shell", "arguments": "{}"},
                  {"type": "function_call_output", "call_id": "t", "output": "ok"}]
        return "/v1/responses", {"model": "m", "stream": stream, "input": i, "tools": [
            {"type": "function", "name": "shell", "parameters": SHELL}]}
    c = [{"role": "user", "parts": [{"text": "hi"}]}]
    if after_tool:
        c += [{"role": "model", "parts": [{"functionCall": {"name": "run_shell_command", "args": {}}}]},
              {"role": "user", "parts": [{"functionResponse": {"name": "run_shell_command", "response": {}}}]}]
    path = "/v1beta/models/g:" + ("streamGenerateContent?alt=sse" if stream else "generateContent")
    return path, {"contents": c, "tools": [{"functionDeclarations": [{"name": "run_shell_command",
                                                                    "parametersJsonSchema": SHELL}]}]}


def post(base, path, body):
    r = urllib.request.Request(base + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(r, timeout=20) as f:
            return f.status, dict(f.headers), f.read().decode("utf-8", "replace")
    except urllib.error.HTTPError as e:
        return e.code, dict(e.headers), e.read().decode()


def main():
    p = subprocess.Popen([sys.executable, os.path.join(HERE, "scripted_model.py"), "--port", "0",
                          "--requests", "90"], stdout=subprocess.PIPE, text=True)
    base = json.loads(p.stdout.readline())["base_url"]
    bad = []

    def check(name, ok, extra=""):
        if not ok:
            bad.append(name)
        print(("ok   " if ok else "FAIL ") + name, "" if ok else str(extra)[:300])
    try:
        for kind in ("anthropic", "chat", "responses", "gemini"):
            for stream in (False, True):
                n = "%s/%s " % (kind, "sse" if stream else "json")
                path, body = req(kind, stream)
                st, h, t = post(base, path, body)
                check(n + "hello", st == 200 and "Hello from" in t and "oken" in t, t)
                st, h, t = post(base, "/s/tool" + path, body)
                tool = {"anthropic": "Bash", "chat": "bash", "responses": "shell", "gemini": "run_shell_command"}[kind]
                check(n + "tool call", st == 200 and '"name": "%s"' % tool in t and (stream or "fake why" in t), t)
                path2, body2 = req(kind, stream, True)
                st, h, t = post(base, "/s/tool" + path2, body2)
                check(n + "after tool", st == 200 and "Done: the file" in t, t)
                st, h, t = post(base, "/s/thinking" + path, body)
                check(n + "thinking", "First I consider" in t, t)
                for sc, want in (("rate_limit", 429), ("auth_error", 401), ("context_overflow", 400),
                                 ("overloaded", 529 if kind == "anthropic" else 503)):
                    st, h, t = post(base, "/s/" + sc + path, body)
                    check(n + sc, st == want and "error" in json.loads(t), (st, t))
                st, h, t = post(base, "/s/rate_limit_once:%s%s%s" % (kind, stream, path), body)
                st2, h, t = post(base, "/s/rate_limit_once:%s%s%s" % (kind, stream, path), body)
                check(n + "rate_limit_once", (st, st2) == (429, 200), (st, st2))
        st, h, t = post(base, "/v1/messages/count_tokens", {"messages": []})
        check("count_tokens", st == 200 and "input_tokens" in t, t)
        st, h, t = post(base, "/v1beta/models/g:countTokens", {"contents": []})
        check("countTokens", st == 200 and "totalTokens" in t, t)
        t = urllib.request.urlopen(base + "/v1/models", timeout=5).read().decode()
        check("models", "fake-model" in t, t)
        t = urllib.request.urlopen(base + "/__requests", timeout=5).read().decode()
        check("request log", len(json.loads(t)) > 60, t)
        st = 200
        for _ in range(90):
            st, h, t = post(base, *req("chat", False))
            if st != 200:
                break
        check("bounded", st == 400 and "more than 90" in t, (st, t))
    finally:
        p.terminate()
        p.wait()
    print("%d failed" % len(bad))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
