#!/usr/bin/env python3
"""A scripted model for end-to-end tests of coding-agent CLIs.

The standard library alone, on loopback alone, in one file. Bounded in time (--seconds), in the number of
answers (--requests), and with --with-stdin by the life of whoever started it.

Speaks (streaming SSE and plain JSON):
  Anthropic Messages   POST /v1/messages, /v1/messages/count_tokens, GET /v1/models
  OpenAI Responses     POST /v1/responses
  OpenAI Chat          POST /v1/chat/completions, GET /v1/models
  Google Gemini        POST /v1beta/models/M:generateContent | :streamGenerateContent?alt=sse | :countTokens

Which scenario answers a request (first match wins):
  1. header  x-fake-scenario: NAME
  2. URL     /s/NAME/...      (put it in the base URL; /s/NAME:KEY/... gives a private counter)
  3. prompt  [[scenario:NAME]] anywhere in the newest user text
  4. the server default (--scenario NAME or FILE.json, changeable with POST /__scenario)

The turn inside a scenario is chosen from the request itself (how many tool rounds
followed the newest user text), so the server is stateless and safe under
concurrency, resume and fork.  Only "times" (fail the first N) keeps a counter.

Control plane: GET /__health, GET /__requests, GET /__scenarios, POST /__scenario,
POST /__reset, POST /__shutdown.
"""
from __future__ import annotations

import argparse
import copy
import gzip
import json
import os
import re
import signal
import socket
import sys
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

LOREM = ("The quick brown fox jumps over the lazy dog; pack my box with five dozen "
         "liquor jugs. ")

# --------------------------------------------------------------------------
# Scenarios.  A scenario is {"turns": [turn, ...]}.  Keys of a turn:
#   thinking   str      reasoning emitted before the text
#   text       str      answer text ({n} = tool rounds so far, {prompt} = user text)
#   repeat_to  int      repeat `text` until it is this many bytes
#   tools      list     tool wishes: {"want": "shell"|"write"|"read"|"edit"|"plan"|"any"|"name:X",
#                       "command":..., "path":..., "content":..., "args": {...overrides}}
#   status     int      answer with an HTTP error instead (429, 529, 503, 401, 400, 402 ...)
#   error      str      which error body (rate_limit, usage_limit, plan_limit, overloaded, auth, context, billing, server)
#   retry_after float   retry-after header for errors
#   times      int      apply status/drop/hang only to the first N requests, then go on
#   chunk_ms   int      delay between stream chunks
#   chunk      int      characters per stream chunk
#   seconds    float    with chunk_ms: stream for about this long
#   first_byte_ms int   delay before the response head
#   malformed  str      garbage | truncate | html | bad_event | no_stop
#   stream_error str    emit an in-stream error event (overloaded, rate_limit) after some text
#   drop       bool     close the socket without answering
#   hang       bool     accept and never answer (until client leaves)
#   stop       str      max_tokens | refusal | end
# --------------------------------------------------------------------------
SCENARIOS: dict[str, dict] = {
    "hello": {"turns": [{"text": "Hello from the fake model."}]},
    "echo": {"turns": [{"text": "You said: {prompt}"}]},
    "tool": {"turns": [
        {"text": "I will create the file now.", "tools": [
            {"want": "shell", "command": "echo fake-model-was-here > made_by_tool.txt && cat made_by_tool.txt",
             "path": "made_by_tool.txt", "content": "fake-model-was-here\n"}]},
        {"text": "Done: the file was created. Tool rounds so far: {n}."}]},
    "write": {"turns": [
        {"tools": [{"want": "write", "path": "written.txt", "content": "line one\nline two\n"}]},
        {"text": "Wrote written.txt."}]},
    "write_subdir": {"turns": [
        {"tools": [{"want": "write", "path": "notes/deep/written.txt", "content": "line one\nline two\n"}]},
        {"text": "Wrote notes/deep/written.txt."}]},
    "write_outside": {"turns": [
        {"tools": [{"want": "write", "path": "/outside-of-the-workspace/x.txt", "content": "escape\n"}]},
        {"text": "Tried to write outside."}]},
    "edit_chain": {"turns": [
        {"tools": [{"want": "write", "path": "chain.txt", "content": "alpha\n"}]},
        {"tools": [{"want": "read", "path": "chain.txt"}]},
        {"tools": [{"want": "shell", "command": "wc -c chain.txt"}]},
        {"text": "Chain finished after {n} tool rounds."}]},
    "greeting": {"turns": [
        {"tools": [{"want": "read", "path": "greeting.txt"}]},
        {"tools": [{"want": "write", "path": "greeting.txt", "content": "Hello from the worktree.\n"}]},
        {"text": "I added a greeting to greeting.txt."}]},
    "readme": {"prompts": {"add a greeting": "greeting"}, "turns": [
        {"tools": [{"want": "read", "path": "greeting.txt"}]},
        {"text": "This repository has one file, greeting.txt, with a greeting in it."}]},
    "multi_tool": {"turns": [
        {"text": "Two commands at once.", "tools": [
            {"want": "shell", "command": "echo one > one.txt"},
            {"want": "shell", "command": "echo two > two.txt"}]},
        {"text": "Both commands ran."}]},
    "tool_fail": {"turns": [
        {"tools": [{"want": "shell", "command": "echo about-to-fail >&2; exit 3"}]},
        {"text": "The command failed with exit code 3, as expected."}]},
    "tool_sleep": {"turns": [
        {"tools": [{"want": "shell", "command": "timeout 30 tail -f /dev/null; echo slept > slept.txt"}]},
        {"text": "Slept."}]},
    # Still quicker than any real model, and slow enough that a busy machine stops it in time.
    "tool_loop": {"turns": [
        {"first_byte_ms": 150, "text": "Again ({n}).", "tools": [{"want": "shell", "command": "date +%s%N >> loop.txt"}]}]},
    "delegate": {"turns": [
        {"text": "Delegating.", "tools": [{"want": "name:Agent", "args": {
            "description": "count", "prompt": "[[scenario:tool_loop]] Count.",
            "subagent_type": "general-purpose"}}]},
        {"text": "It is on its way."}]},
    "unknown_tool": {"turns": [
        {"tools": [{"want": "name:no_such_tool_xyz", "args": {"a": 1}}]},
        {"text": "That tool does not exist; stopping."}]},
    "plan": {"turns": [
        {"tools": [{"want": "plan"}]},
        {"text": "Plan recorded."}]},
    "thinking": {"turns": [{"thinking": "First I consider the request. Then I decide that a short answer is best.",
                            "text": "After thinking: the answer is 42."}]},
    "rate_limit": {"turns": [{"status": 429, "error": "rate_limit", "retry_after": 2}]},
    "rate_limit_once": {"turns": [{"status": 429, "error": "rate_limit", "retry_after": 1, "times": 1,
                                   "text": "Recovered after one rate limit."}]},
    "usage_limit": {"turns": [{"status": 429, "error": "usage_limit", "retry_after": 3600}]},
    "plan_limit": {"turns": [{"status": 429, "error": "plan_limit", "retry_after": 3600}]},
    "overloaded": {"turns": [{"status": 529, "error": "overloaded", "retry_after": 1}]},
    "overloaded_once": {"turns": [{"status": 529, "error": "overloaded", "retry_after": 1, "times": 1,
                                   "text": "Recovered after one overload."}]},
    "server_error": {"turns": [{"status": 500, "error": "server"}]},
    "stream_error": {"turns": [{"text": "Partial answer before the provider fails.", "stream_error": "overloaded"}]},
    "auth_error": {"turns": [{"status": 401, "error": "auth"}], "all_endpoints": True},
    "billing": {"turns": [{"status": 400, "error": "billing"}]},
    "context_overflow": {"turns": [{"status": 400, "error": "context"}]},
    "slow": {"turns": [{"text": LOREM, "chunk_ms": 200, "seconds": 6}]},
    "very_slow": {"turns": [{"text": LOREM, "chunk_ms": 200, "seconds": 60}]},
    "huge": {"turns": [{"text": "HUGE " + LOREM, "repeat_to": 2_000_000, "chunk": 8192,
                        "usage": {"output": 30000}}]},
    "long_line": {"turns": [{"text": "x" * 64, "repeat_to": 300_000, "chunk": 300_000}]},
    "unicode": {"turns": [{"text": "Unicode: caf\u00e9 \u4f60\u597d \U0001f980 \u202eRTL\u202c \u0007bell \u001b[31mred\u001b[0m \"quotes\" \\back\\ \u2028LS\u2029PS end.",
                           "chunk": 3}]},
    "markdown": {"turns": [{"text": "# Title\n\n```json\n{\"verdict\": \"pass\", \"score\": 9}\n```\n\n- item\n"}]},
    "json_answer": {"turns": [{"text": "{\"verdict\": \"pass\", \"summary\": \"all good\", \"items\": [1, 2, 3]}"}]},
    "empty": {"turns": [{"text": ""}]},
    "malformed": {"turns": [{"text": "This stream will break in the middle of this very sentence, on purpose.",
                             "chunk": 12, "malformed": "garbage"}]},
    "truncate": {"turns": [{"text": "This stream is cut off in the middle of an event, on purpose.", "chunk": 12,
                            "malformed": "truncate"}]},
    "html": {"turns": [{"malformed": "html"}]},
    "drop": {"turns": [{"drop": True}]},
    "hang": {"turns": [{"hang": True}]},
    "max_tokens": {"turns": [{"text": "This answer was cut by the token limi", "stop": "max_tokens"}]},
    "refusal": {"turns": [{"text": "I cannot help with that.", "stop": "refusal"}]},
}

SHELL_NAMES = ["bash", "shell", "shell_command", "exec_command", "run_shell_command", "local_shell",
               "run_terminal_cmd", "run_in_terminal", "execute_command", "run_command", "terminal", "exec",
               "execute_bash", "execute", "developer__shell", "launch-process", "run_bash", "command",
               "run_commands", "process_start"]
WRITE_NAMES = ["write", "write_file", "writefile", "create_file", "create", "save-file", "save_file",
               "write_to_file", "strreplacefile", "file_editor", "str_replace_editor", "edit_file", "editor", "apply_patch"]
READ_NAMES = ["read", "read_file", "readfile", "view", "view_file", "cat"]
EDIT_NAMES = ["edit", "edit_file", "replace", "str_replace", "apply_patch", "strreplacefile", "search_replace",
              "str_replace_editor"]
PLAN_NAMES = ["update_plan", "todowrite", "todo_write", "write_todos", "settodolist", "todo", "todo_list",
              "taskcreate", "update_todo_list"]
CMD_PROPS = ["command", "cmd", "script", "commands", "shell_command", "command_line", "input", "code"]
PATH_PROPS = ["file_path", "filepath", "path", "filename", "target_file", "file", "absolute_path", "notebook_path"]
CONTENT_PROPS = ["content", "contents", "text", "file_text", "file_content", "code", "new_string", "new_text",
                 "instructions"]


def tok(n_bytes: int) -> int:
    return max(1, n_bytes // 4)


def new_id(prefix: str, n: int = 24) -> str:
    return prefix + os.urandom(n)[:n].hex()[:n]


# --------------------------------------------------------------------------
# Requests, normalised over the four protocols
# --------------------------------------------------------------------------
class Tool:
    def __init__(self, name, schema, kind="function", namespace=None, desc=""):
        self.name, self.schema, self.kind, self.namespace, self.desc = name, schema or {}, kind, namespace, desc or ""


class Req:
    """What the scenario engine needs to know about one model call."""

    def __init__(self):
        self.proto = ""
        self.model = ""
        self.stream = False
        self.tools: list[Tool] = []
        self.forced_tool: str | None = None
        self.schema = None            # structured output schema, if asked for
        self.user_text = ""           # newest real user text
        self.system_text = ""
        self.rounds = 0               # tool rounds after the newest user text
        self.prefix_bytes = 0         # bytes of everything before the last message
        self.total_bytes = 0
        self.include_usage = True
        self.max_tokens = None
        self.body: dict = {}

    def aux(self) -> bool:
        """True for side calls (titles, summaries, classifiers) that are not the agent loop."""
        if self.tools:
            return False
        if self.max_tokens is not None and self.max_tokens <= 64:
            return True
        s = (self.system_text[:4000] + "\n" + self.user_text[:4000]).lower()
        return bool(re.search(r"\b(title|topic|branch name|classif|routing|next speaker|summari[sz]e|quota)\b", s)) \
            and not re.search(r"\bcoding (agent|assistant)\b|expert software", self.system_text[:600].lower())


def _text_of(content) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    out = []
    if isinstance(content, list):
        for b in content:
            if isinstance(b, str):
                out.append(b)
            elif isinstance(b, dict):
                t = b.get("text")
                if isinstance(t, str):
                    out.append(t)
    return "\n".join(out)


def _is_reminder(t: str) -> bool:
    t = t.strip()
    return (not t) or t.startswith(("<system-reminder", "<environment_context", "<user_instructions", "<system",
                                    "<permissions", "<turn_aborted", "<<<BEGIN_OPENCLAW_INTERNAL", "# AGENTS.md", "<skills", "<collaboration"))


def parse_anthropic(body: dict) -> Req:
    r = Req()
    r.proto, r.model, r.body = "anthropic", body.get("model", "fake-model"), body
    r.stream = bool(body.get("stream"))
    r.max_tokens = body.get("max_tokens")
    r.system_text = _text_of(body.get("system"))
    for t in body.get("tools") or []:
        if t.get("type") in (None, "custom") or "input_schema" in t:
            r.tools.append(Tool(t.get("name"), t.get("input_schema")))
        elif str(t.get("type", "")).startswith("bash_"):
            r.tools.append(Tool(t.get("name"), {"properties": {"command": {"type": "string"}}}))
    tc = body.get("tool_choice") or {}
    if tc.get("type") == "tool":
        r.forced_tool = tc.get("name")
    fmt = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
    if fmt.get("type") == "json_schema":
        r.schema = fmt.get("schema")
    msgs = body.get("messages") or []
    last_user = -1
    for i, m in enumerate(msgs):
        if m.get("role") != "user":
            continue
        c = m.get("content")
        blocks = [{"type": "text", "text": c}] if isinstance(c, str) else (c or [])
        if any(b.get("type") == "tool_result" for b in blocks if isinstance(b, dict)):
            continue
        texts = [b.get("text", "") for b in blocks if isinstance(b, dict) and b.get("type") == "text"]
        real = [t for t in texts if not _is_reminder(t)]
        if real:
            last_user = i
            r.user_text = "\n".join(real)
    for m in msgs[last_user + 1:]:
        if m.get("role") == "assistant" and isinstance(m.get("content"), list) and \
                any(b.get("type") == "tool_use" for b in m["content"] if isinstance(b, dict)):
            r.rounds += 1
    _sizes(r, body, msgs)
    return r


def parse_chat(body: dict) -> Req:
    r = Req()
    r.proto, r.model, r.body = "chat", body.get("model", "fake-model"), body
    r.stream = bool(body.get("stream"))
    r.max_tokens = body.get("max_tokens") or body.get("max_completion_tokens")
    so = body.get("stream_options") or {}
    r.include_usage = bool(so.get("include_usage"))
    for t in body.get("tools") or []:
        f = t.get("function") or t
        if f.get("name"):
            r.tools.append(Tool(f.get("name"), f.get("parameters") or {}))
    tc = body.get("tool_choice")
    if isinstance(tc, dict):
        r.forced_tool = (tc.get("function") or {}).get("name")
    rf = body.get("response_format") or {}
    if rf.get("type") == "json_schema":
        r.schema = (rf.get("json_schema") or {}).get("schema")
    elif rf.get("type") == "json_object":
        r.schema = {"type": "object"}
    msgs = body.get("messages") or []
    last_user = -1
    for i, m in enumerate(msgs):
        if m.get("role") in ("system", "developer"):
            r.system_text += _text_of(m.get("content"))
        if m.get("role") == "user":
            t = _text_of(m.get("content"))
            if not _is_reminder(t):
                last_user, r.user_text = i, t
    for m in msgs[last_user + 1:]:
        if m.get("role") == "assistant" and m.get("tool_calls"):
            r.rounds += 1
    _sizes(r, body, msgs)
    return r


def parse_responses(body: dict) -> Req:
    r = Req()
    r.proto, r.model, r.body = "responses", body.get("model", "fake-model"), body
    r.stream = bool(body.get("stream"))
    r.system_text = body.get("instructions") or ""

    def add(t, ns=None):
        ty = t.get("type")
        if ty == "namespace":
            for s in t.get("tools") or []:
                add(s, t.get("name"))
        elif ty == "function":
            f = t.get("function") or t
            r.tools.append(Tool(f.get("name"), f.get("parameters") or {}, "function", ns))
        elif ty == "custom":
            r.tools.append(Tool(t.get("name"), {}, "custom", ns, t.get("description")))
        elif ty in ("local_shell", "shell"):
            r.tools.append(Tool(ty, {}, ty))
    for t in body.get("tools") or []:
        add(t)
    tc = body.get("tool_choice")
    if isinstance(tc, dict):
        r.forced_tool = tc.get("name")
    fmt = ((body.get("text") or {}).get("format")) or {}
    if fmt.get("type") == "json_schema":
        r.schema = fmt.get("schema")
    items = body.get("input")
    if isinstance(items, str):
        items = [{"type": "message", "role": "user", "content": items}]
    items = items or []
    last_user = -1
    for i, m in enumerate(items):
        if m.get("type") == "additional_tools":
            for t in m.get("tools") or []:
                add(t)
        if m.get("type", "message") != "message":
            continue
        if m.get("role") in ("system", "developer"):
            r.system_text += _text_of(m.get("content"))
        if m.get("role") == "user":
            t = _text_of(m.get("content"))
            if not _is_reminder(t):
                last_user, r.user_text = i, t
    prev_call = False
    for m in items[last_user + 1:]:
        is_call = str(m.get("type", "")).endswith("_call") and m.get("type") != "web_search_call"
        if is_call and not prev_call:
            r.rounds += 1
        prev_call = is_call
    _sizes(r, body, items)
    return r


def parse_gemini(body: dict, model: str, stream: bool) -> Req:
    r = Req()
    r.proto, r.model, r.body, r.stream = "gemini", model, body, stream
    body = body.get("request") if isinstance(body.get("request"), dict) else body
    si = body.get("systemInstruction") or body.get("system_instruction") or {}
    r.system_text = _text_of(si.get("parts") if isinstance(si, dict) else si)
    for t in body.get("tools") or []:
        for f in t.get("functionDeclarations") or t.get("function_declarations") or []:
            r.tools.append(Tool(f.get("name"), f.get("parametersJsonSchema") or f.get("parameters") or {}))
    gc = body.get("generationConfig") or {}
    r.schema = gc.get("responseJsonSchema") or gc.get("responseSchema")
    r.max_tokens = gc.get("maxOutputTokens")
    msgs = body.get("contents") or []
    if isinstance(msgs, dict):
        msgs = [msgs]
    last_user = -1
    for i, m in enumerate(msgs):
        if m.get("role", "user") != "user":
            continue
        parts = m.get("parts") or []
        if any("functionResponse" in p for p in parts if isinstance(p, dict)):
            continue
        t = _text_of(parts)
        if not _is_reminder(t) and not t.startswith(("This is the Gemini CLI", "<session_context")):
            last_user, r.user_text = i, t
    for m in msgs[last_user + 1:]:
        if m.get("role") == "model" and any("functionCall" in p for p in m.get("parts") or [] if isinstance(p, dict)):
            r.rounds += 1
    _sizes(r, body, msgs)
    return r


def _sizes(r: Req, body: dict, msgs: list):
    r.total_bytes = len(json.dumps(body))
    last = len(json.dumps(msgs[-1])) if msgs else 0
    # The provider caches the prefix up to the previous turn; a first turn only creates cache.
    n_user = sum(1 for m in msgs if m.get("role") in ("assistant", "model")) or \
        sum(1 for m in msgs if str(m.get("type", "")).endswith("_call"))
    r.prefix_bytes = max(0, r.total_bytes - last) if n_user else 0


# --------------------------------------------------------------------------
# Choosing and filling a tool
# --------------------------------------------------------------------------
def schema_value(s, depth=0, name=""):
    """A plausible instance of a JSON schema."""
    if not isinstance(s, dict) or depth > 8:
        return "x"
    if "const" in s:
        return s["const"]
    if s.get("enum"):
        return s["enum"][0]
    if "default" in s and s["default"] is not None:
        return copy.deepcopy(s["default"])
    for k in ("anyOf", "oneOf", "allOf"):
        if s.get(k):
            non_null = [x for x in s[k] if (x or {}).get("type") not in ("null", "NULL")]
            return schema_value((non_null or s[k])[0], depth + 1, name)
    t = s.get("type")
    if isinstance(t, list):
        t = next((x for x in t if x != "null"), "string")
    t = str(t).lower() if t else ("object" if "properties" in s else "string")
    if t == "object":
        props = s.get("properties") or {}
        return {k: schema_value(props.get(k) or {}, depth + 1, k) for k in (s.get("required") or [])}
    if t == "array":
        n = max(1, int(s.get("minItems") or 0))
        return [schema_value(s.get("items") or {}, depth + 1, name) for _ in range(n)]
    if t in ("integer", "number"):
        v = s.get("minimum", 1)
        return int(v) if t == "integer" else v
    if t == "boolean":
        return False
    if t == "null":
        return None
    return {"description": "Run a small command", "title": "Fake title", "reasoning": "Because the script says so.",
            "model_choice": "flash"}.get(name, f"fake {name}".strip())


def find_tool(r: Req, want: str) -> Tool | None:
    if want.startswith("name:"):
        n = want[5:]
        return next((t for t in r.tools if t.name == n), Tool(n, {}))
    names = {"shell": SHELL_NAMES, "write": WRITE_NAMES, "read": READ_NAMES, "edit": EDIT_NAMES,
             "plan": PLAN_NAMES}.get(want, [])
    low = {(t.name or "").lower(): t for t in r.tools}
    for n in names:
        if n in low:
            return low[n]
    for n in names:                      # prefixed names, e.g. mcp__x__bash, developer__shell
        for k, t in low.items():
            if re.search(r"(^|[_.\-])" + re.escape(n) + r"$", k):
                return t
    if want == "any" and r.tools:
        return r.tools[0]
    return None


def fill_args(r: Req, tool: Tool, wish: dict):
    """Arguments valid for the schema that the request itself offers."""
    if tool.kind == "custom":
        # free-form tools: apply_patch or a code-mode "exec"
        if "patch" in (tool.name or ""):
            body = "".join("+" + ln + "\n" for ln in (wish.get("content") or "hello\n").splitlines())
            return "*** Begin Patch\n*** Add File: %s\n%s*** End Patch\n" % (wish.get("path", "made.txt"), body)
        if "JavaScript" in tool.desc:              # codex "code mode": tools are called from a script
            return wish.get("code") or "const r = await tools.exec_command({cmd: %s});\ntext(r.output ?? r);" % (
                json.dumps(wish.get("command") or "ls"))
        return wish.get("code") or wish.get("command") or "ls"
    if tool.kind in ("local_shell", "shell"):
        return {"type": "exec", "command": ["bash", "-lc", wish.get("command", "ls")], "env": {}}
    s = tool.schema or {}
    props = s.get("properties") or {}
    args = schema_value({"type": "object", "properties": props, "required": s.get("required") or []})
    low = {k.lower(): k for k in props}

    def put(cands, value):
        for c in cands:
            k = low.get(c)
            if k is None:
                continue
            ps = props[k] if isinstance(props[k], dict) else {}
            t = ps.get("type")
            t = t[0] if isinstance(t, list) and t else t
            if str(t).lower() == "array":
                it = (ps.get("items") or {})
                if str(it.get("type")).lower() == "object":
                    o = schema_value(it)
                    ik = {x.lower(): x for x in (it.get("properties") or {})}
                    for c2 in cands:
                        if c2 in ik:
                            o[ik[c2]] = value
                            break
                    args[k] = [o]
                else:
                    args[k] = ["bash", "-lc", value] if k.lower() in ("command", "cmd") else [value]
            else:
                args[k] = value
            return True
        return False

    want = wish.get("want")
    is_shell = want == "shell" and find_tool(r, "shell") is tool
    if want == "shell" and is_shell:
        if wish.get("command"):
            put(CMD_PROPS, wish["command"])
        # A terminal tool that wants ids or modes gets sane values
        for k, v in (("mode", "sync"), ("is_background", False), ("run_in_background", False), ("wait", True),
                     ("cwd", wish.get("cwd")), ("max_wait_seconds", 60)):
            if k in low and v is not None and (k in (s.get("required") or [])) and low[k] in args:
                if not isinstance(args[low[k]], (int, float)) or isinstance(args[low[k]], bool) or k == "max_wait_seconds":
                    ps = props[low[k]]
                    if not (ps.get("enum") and v not in ps["enum"]):
                        args[low[k]] = v
    elif want in ("write", "read", "edit", "shell"):
        p = wish.get("path") or "made.txt"
        ptext = json.dumps({k: props.get(low[k]) for k in PATH_PROPS if k in low}).lower()
        if "absolute" in ptext or (tool.name or "").lower() in ("write", "read", "edit"):
            cwd = guess_cwd(r)
            if cwd and not p.startswith("/"):
                p = cwd.rstrip("/") + "/" + p
        put(PATH_PROPS, p)
        if want != "read":
            put(CONTENT_PROPS, wish.get("content", "hello\n"))
        if "command" in low and isinstance(props.get(low["command"]), dict) and props[low["command"]].get("enum"):
            args[low["command"]] = "create" if want != "read" else "view"
    args.update(wish.get("args") or {})
    return args


def guess_cwd(r: Req) -> str | None:
    """The agent's working directory, read from the prompt it sent; only a directory that exists here counts."""
    blob = json.dumps(r.body)
    rx = (r"(?:[Ww]orking [Dd]irectory|<cwd>|\bcwd\b|[Cc]urrent [Dd]irectory|[Ww]orkspace[^/\\\"<>]{0,30}|[Dd]irectory)"
          r"[^/\\\"<>]{0,40}?(/[^\s\\\"<>`',)]+)")
    for m in re.finditer(rx, blob):
        d = m.group(1).rstrip(".:;")
        if d.count("/") >= 2 and os.path.isdir(d):
            return d
    return None


# --------------------------------------------------------------------------
# A planned answer
# --------------------------------------------------------------------------
class Plan:
    def __init__(self):
        self.blocks: list[tuple] = []     # ("thinking", str) ("text", str) ("tool", id, Tool, args)
        self.chunk = 24
        self.chunk_ms = 0
        self.malformed = None
        self.stream_error = None
        self.stop = None
        self.usage: dict = {}

    def out_bytes(self):
        n = 0
        for b in self.blocks:
            n += len(b[1]) if b[0] != "tool" else len(json.dumps(b[3])) + 20
        return n


def make_plan(r: Req, turn: dict, aux: bool) -> Plan:
    p = Plan()
    p.chunk = int(turn.get("chunk", 24))
    p.chunk_ms = int(turn.get("chunk_ms", 0))
    p.malformed = turn.get("malformed")
    p.stream_error = turn.get("stream_error")
    p.stop = turn.get("stop")
    if r.forced_tool:
        t = next((t for t in r.tools if t.name == r.forced_tool), None)
        if t:
            p.blocks.append(("tool", new_id("toolu_"), t, schema_value(t.schema)))
            _usage(r, p)
            return p
    if r.schema is not None:
        p.blocks.append(("text", json.dumps(schema_value(r.schema))))
        p.malformed = p.stream_error = None
        p.chunk_ms = 0
        _usage(r, p)
        return p
    if aux:
        p.chunk_ms, p.malformed, p.stream_error = 0, None, None
        p.blocks.append(("text", "Fake session title"))
        _usage(r, p)
        return p
    if turn.get("thinking"):
        p.blocks.append(("thinking", turn["thinking"]))
    text = turn.get("text")
    if text is not None:
        text = text.replace("{n}", str(r.rounds)).replace("{prompt}", r.user_text.strip()[:2000])
        want = int(turn.get("repeat_to") or 0)
        if turn.get("seconds") and p.chunk_ms:
            want = max(want, int(float(turn["seconds"]) * 1000 / p.chunk_ms) * p.chunk)
        if want and text:
            text = filler(text, want)
    tools = []
    for w in turn.get("tools") or []:
        t = find_tool(r, w.get("want", "any"))
        if t is None and w.get("want") == "shell":
            t = find_tool(r, "write")
        if t is None and w.get("want") in ("write", "edit", "read"):    # shell-only agents (e.g. codex)
            t = find_tool(r, "shell")
            path = w.get("path", "made.txt")
            cmd = "cat '%s'" % path if w["want"] == "read" else \
                "mkdir -p \"$(dirname '%s')\" && printf '%%s' '%s' > '%s'" % (
                    path, w.get("content", "hello\n").replace("'", "'\\''"), path)
            w = dict(w, want="shell", command=cmd)
        if t is None:
            continue
        tools.append(("tool", new_id("call_"), t, fill_args(r, t, w)))
    if turn.get("tools") and not tools:
        w = turn["tools"][0]                      # agents without tools (aider): a text edit block
        text = (text or "") + "\n\n%s\n```\n<<<<<<< SEARCH\n=======\n%s>>>>>>> REPLACE\n```\n" % (
            w.get("path", "made.txt"), w.get("content", "hello\n"))
    if text is not None and (text or not tools):
        p.blocks.append(("text", text))
    p.blocks.extend(tools)
    _usage(r, p, turn.get("usage"))
    return p


def _usage(r: Req, p: Plan, override=None):
    total_in = tok(r.total_bytes)
    read = tok(r.prefix_bytes) if r.prefix_bytes > 4096 else 0
    create = max(0, total_in - read - 12) if total_in > 1024 else 0
    think = sum(tok(len(b[1])) for b in p.blocks if b[0] == "thinking")
    p.usage = {"input": max(1, total_in - read - create), "cache_read": read, "cache_create": create,
               "output": tok(p.out_bytes()), "reasoning": think}
    p.usage.update(override or {})


def sse_json(d) -> str:
    """UTF-8 JSON, but U+2028/2029 escaped: some clients split SSE lines on them."""
    return json.dumps(d, ensure_ascii=False).replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


WORDS = ("alpha bravo cedar delta ember frost grove harbor island jasper kettle lumen meadow nectar orchid pebble "
         "quartz river saddle timber umber velvet willow xenon yarrow zephyr").split()


def filler(text: str, want: int) -> str:
    """Long deterministic text without repeats, so that agents' loop detectors stay quiet."""
    out, n, x, i = [text], len(text), 12345, 0
    while n < want:
        ws = []
        for _ in range(9):
            x = (x * 1103515245 + 12345) & 0x7FFFFFFF
            ws.append(WORDS[(x >> 16) % len(WORDS)])
        line = "%06d %s.\n" % (i, " ".join(ws))
        out.append(line)
        n += len(line)
        i += 1
    return "".join(out)[:want]


def split(s: str, n: int):
    return [s[i:i + n] for i in range(0, len(s), n)] or [""]


# --------------------------------------------------------------------------
# Error bodies and headers as the real providers send them
# --------------------------------------------------------------------------
def error_for(proto: str, status: int, kind: str, retry_after, model: str):
    now = int(time.time())
    ra = retry_after
    h: list[tuple[str, str]] = []
    iso = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + int(ra or 60)))
    if proto == "anthropic":
        types = {"rate_limit": "rate_limit_error", "usage_limit": "rate_limit_error", "overloaded": "overloaded_error",
                 "auth": "authentication_error", "context": "invalid_request_error", "billing": "invalid_request_error",
                 "server": "api_error"}
        msgs = {"rate_limit": "This request would exceed your organization's rate limit of 50 requests per minute. "
                              "For details, refer to: the rate limits page of your provider.",
                "usage_limit": "Claude AI usage limit reached|%d" % (now + int(ra or 3600)),
                "overloaded": "Overloaded", "auth": "invalid x-api-key",
                "context": "prompt is too long: 212345 tokens > 200000 maximum",
                "billing": "Your credit balance is too low to access the API. Please go to Plans & Billing to upgrade "
                           "or purchase credits.",
                "server": "Internal server error"}
        body = {"type": "error", "error": {"type": types.get(kind, "api_error"), "message": msgs.get(kind, kind)},
                "request_id": new_id("req_")}
        h.append(("request-id", body["request_id"]))
        if kind in ("rate_limit", "usage_limit"):
            h += [("anthropic-ratelimit-requests-limit", "50"), ("anthropic-ratelimit-requests-remaining", "0"),
                  ("anthropic-ratelimit-requests-reset", iso),
                  ("anthropic-ratelimit-input-tokens-limit", "30000"),
                  ("anthropic-ratelimit-input-tokens-remaining", "0"),
                  ("anthropic-ratelimit-input-tokens-reset", iso),
                  ("anthropic-ratelimit-output-tokens-limit", "8000"),
                  ("anthropic-ratelimit-output-tokens-remaining", "8000"),
                  ("anthropic-ratelimit-output-tokens-reset", iso)]
        if kind == "usage_limit":
            h += [("anthropic-ratelimit-unified-status", "rejected"),
                  ("anthropic-ratelimit-unified-reset", str(now + int(ra or 3600))),
                  ("anthropic-ratelimit-unified-representative-claim", "five_hour"),
                  ("anthropic-ratelimit-unified-5h-status", "rejected"),
                  ("anthropic-ratelimit-unified-5h-utilization", "1.0"),
                  ("anthropic-ratelimit-unified-5h-reset", str(now + int(ra or 3600))),
                  ("anthropic-ratelimit-unified-overage-status", "rejected"), ("x-should-retry", "false")]
    elif proto in ("responses", "chat"):
        if status == 529:
            status = 503
        t = {"rate_limit": ("Rate limit reached for %s in organization org-fake on tokens per min (TPM): Limit 30000, "
                            "Used 30000, Requested 1200. Please try again in %ss. Visit your provider's rate limit page "
                            "to learn more." % (model, ra or 1), "tokens", "rate_limit_exceeded"),
             "usage_limit": ("You exceeded your current quota, please check your plan and billing details.",
                             "insufficient_quota", "insufficient_quota"),
             "overloaded": ("The server is currently overloaded with other requests. Sorry about that! You can retry "
                            "your request.", "server_error", "server_is_overloaded"),
             "auth": ("Incorrect API key provided: test-key. You can find your API key in your account settings.",
                      "invalid_request_error", "invalid_api_key"),
             "context": ("Your input exceeds the context window of this model. Please adjust your input and try again.",
                         "invalid_request_error", "context_length_exceeded"),
             "billing": ("You have insufficient credits.", "insufficient_quota", "billing_hard_limit_reached"),
             "server": ("The server had an error while processing your request. Sorry about that!", "server_error",
                        None)}.get(kind, (kind, "server_error", None))
        body = {"error": {"message": t[0], "type": t[1], "param": None, "code": t[2]}}
        h.append(("x-request-id", new_id("req_")))
        if kind == "plan_limit":
            # What a subscription is answered when one of its windows is used up.
            span = int(ra or 3600)
            body = {"error": {"type": "usage_limit_reached", "message": "The usage limit has been reached",
                              "plan_type": "plus", "resets_at": now + span, "resets_in_seconds": span}}
            h += [("x-codex-primary-used-percent", "100"), ("x-codex-primary-window-minutes", "300"),
                  ("x-codex-primary-reset-at", str(now + span)),
                  ("x-codex-secondary-used-percent", "80"), ("x-codex-secondary-window-minutes", "10080"),
                  ("x-codex-secondary-reset-at", str(now + 400000)), ("x-codex-plan-type", "plus"),
                  ("x-codex-credits-has-credits", "False"), ("x-codex-credits-unlimited", "False")]
        if kind == "rate_limit":
            h += [("x-ratelimit-limit-requests", "500"), ("x-ratelimit-remaining-requests", "499"),
                  ("x-ratelimit-reset-requests", "120ms"), ("x-ratelimit-limit-tokens", "30000"),
                  ("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "%ss" % (ra or 1)),
                  ("retry-after-ms", str(int(float(ra or 1) * 1000)))]
    else:
        if status == 529:
            status = 503
        st = {"rate_limit": "RESOURCE_EXHAUSTED", "usage_limit": "RESOURCE_EXHAUSTED", "overloaded": "UNAVAILABLE",
              "auth": "UNAUTHENTICATED", "context": "INVALID_ARGUMENT", "billing": "FAILED_PRECONDITION",
              "server": "INTERNAL"}.get(kind, "INTERNAL")
        msg = {"rate_limit": "You exceeded your current quota, please check your plan and billing details. "
                             "Please retry in %ss." % (ra or 7),
               "usage_limit": "You exceeded your current quota. Quota resets after a day.",
               "overloaded": "The model is overloaded. Please try again later.",
               "auth": "API key not valid. Please pass a valid API key.",
               "context": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
               "billing": "Billing account is not active.", "server": "An internal error has occurred."}.get(kind, kind)
        body = {"error": {"code": status, "message": msg, "status": st}}
        if kind in ("rate_limit", "usage_limit"):
            per_day = kind == "usage_limit"
            body["error"]["details"] = [
                {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [
                    {"quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests",
                     "quotaId": "GenerateRequestsPer%sPerProjectPerModel-FreeTier" % ("Day" if per_day else "Minute"),
                     "quotaDimensions": {"location": "global", "model": model}, "quotaValue": "10"}]},
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "%ss" % (ra or 7)}]
        if kind == "auth":
            body["error"]["details"] = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo",
                                         "reason": "API_KEY_INVALID", "domain": "googleapis.com"}]
    if ra is not None:
        h.append(("retry-after", str(int(ra) if float(ra).is_integer() else ra)))
    return status, body, h


# --------------------------------------------------------------------------
# Encoders: Plan -> SSE events (generator of (event, data) ) and -> JSON body
# --------------------------------------------------------------------------
def anth_usage(u):
    return {"input_tokens": u["input"], "cache_creation_input_tokens": u["cache_create"],
            "cache_read_input_tokens": u["cache_read"],
            "cache_creation": {"ephemeral_5m_input_tokens": u["cache_create"], "ephemeral_1h_input_tokens": 0},
            "output_tokens": u["output"], "service_tier": "standard"}


def anth_stop(p):
    if p.stop in ("max_tokens", "refusal"):
        return p.stop
    return "tool_use" if any(b[0] == "tool" for b in p.blocks) else "end_turn"


def anth_json(r, p):
    content = []
    for b in p.blocks:
        if b[0] == "thinking":
            content.append({"type": "thinking", "thinking": b[1], "signature": "ZmFrZS1zaWduYXR1cmU="})
        elif b[0] == "text":
            content.append({"type": "text", "text": b[1]})
        else:
            content.append({"type": "tool_use", "id": b[1], "name": b[2].name, "input": b[3]})
    return {"id": new_id("msg_"), "type": "message", "role": "assistant", "model": r.model, "content": content,
            "stop_reason": anth_stop(p), "stop_sequence": None, "usage": anth_usage(p.usage)}


def anth_sse(r, p):
    u = anth_usage(p.usage)
    start = dict(u, output_tokens=1)
    yield "message_start", {"type": "message_start", "message": {
        "id": new_id("msg_"), "type": "message", "role": "assistant", "model": r.model, "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": start}}
    yield "ping", {"type": "ping"}
    for i, b in enumerate(p.blocks):
        if b[0] == "thinking":
            cb, deltas = {"type": "thinking", "thinking": "", "signature": ""}, [
                {"type": "thinking_delta", "thinking": s} for s in split(b[1], p.chunk)] + [
                {"type": "signature_delta", "signature": "ZmFrZS1zaWduYXR1cmU="}]
        elif b[0] == "text":
            cb, deltas = {"type": "text", "text": ""}, [{"type": "text_delta", "text": s} for s in split(b[1], p.chunk)]
        else:
            cb = {"type": "tool_use", "id": b[1], "name": b[2].name, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": s}
                      for s in [""] + split(json.dumps(b[3]), max(p.chunk, 24))]
        yield "content_block_start", {"type": "content_block_start", "index": i, "content_block": cb}
        for d in deltas:
            yield "content_block_delta", {"type": "content_block_delta", "index": i, "delta": d}
        yield "content_block_stop", {"type": "content_block_stop", "index": i}
    if p.stream_error:
        yield "error", {"type": "error", "error": {"type": p.stream_error + "_error", "message": p.stream_error.title()}}
        return
    yield "message_delta", {"type": "message_delta", "delta": {"stop_reason": anth_stop(p), "stop_sequence": None},
                            "usage": u}
    yield "message_stop", {"type": "message_stop"}


def resp_items(p):
    out = []
    for b in p.blocks:
        if b[0] == "thinking":
            out.append({"type": "reasoning", "id": new_id("rs_"), "summary": [{"type": "summary_text", "text": b[1]}],
                        "encrypted_content": "ZmFrZQ=="})
        elif b[0] == "text":
            out.append({"type": "message", "id": new_id("msg_"), "role": "assistant", "status": "completed",
                        "content": [{"type": "output_text", "text": b[1], "annotations": [], "logprobs": []}]})
        else:
            t, args = b[2], b[3]
            if t.kind == "custom":
                it = {"type": "custom_tool_call", "id": new_id("ctc_"), "call_id": b[1], "name": t.name,
                      "input": args, "status": "completed"}
            elif t.kind == "local_shell":
                it = {"type": "local_shell_call", "id": new_id("lsh_"), "call_id": b[1], "status": "completed",
                      "action": args}
            elif t.kind == "shell":
                it = {"type": "shell_call", "id": new_id("sh_"), "call_id": b[1], "status": "completed",
                      "action": {"commands": [args["command"][-1]]}}
            else:
                it = {"type": "function_call", "id": new_id("fc_"), "call_id": b[1], "name": t.name,
                      "arguments": json.dumps(args), "status": "completed"}
            if t.namespace:
                it["namespace"] = t.namespace
            out.append(it)
    return out


def resp_usage(u):
    inp = u["input"] + u["cache_read"] + u["cache_create"]
    return {"input_tokens": inp, "input_tokens_details": {"cached_tokens": u["cache_read"]},
            "output_tokens": u["output"], "output_tokens_details": {"reasoning_tokens": u["reasoning"]},
            "total_tokens": inp + u["output"]}


def resp_envelope(r, p, rid, status, items):
    d = {"id": rid, "object": "response", "created_at": int(time.time()), "status": status, "model": r.model,
         "error": None, "incomplete_details": None, "instructions": None, "output": items,
         "parallel_tool_calls": True, "tools": [], "tool_choice": "auto", "store": False,
         "usage": resp_usage(p.usage) if status in ("completed", "incomplete") else None}
    if p.stop == "max_tokens" and status == "incomplete":
        d["incomplete_details"] = {"reason": "max_output_tokens"}
    return d


def resp_json(r, p):
    return resp_envelope(r, p, new_id("resp_"), "incomplete" if p.stop == "max_tokens" else "completed", resp_items(p))


def resp_sse(r, p):
    rid, seq = new_id("resp_"), [0]

    def ev(t, **kw):
        d = {"type": t, "sequence_number": seq[0]}
        seq[0] += 1
        d.update(kw)
        return t, d
    yield ev("response.created", response=resp_envelope(r, p, rid, "in_progress", []))
    yield ev("response.in_progress", response=resp_envelope(r, p, rid, "in_progress", []))
    items = resp_items(p)
    for i, it in enumerate(items):
        if it["type"] == "message":
            text = it["content"][0]["text"]
            yield ev("response.output_item.added", output_index=i, item=dict(it, content=[], status="in_progress"))
            yield ev("response.content_part.added", output_index=i, content_index=0, item_id=it["id"],
                     part={"type": "output_text", "text": "", "annotations": []})
            for s in split(text, p.chunk):
                yield ev("response.output_text.delta", output_index=i, content_index=0, item_id=it["id"], delta=s)
            yield ev("response.output_text.done", output_index=i, content_index=0, item_id=it["id"], text=text)
            yield ev("response.content_part.done", output_index=i, content_index=0, item_id=it["id"],
                     part=it["content"][0])
        elif it["type"] == "reasoning":
            text = it["summary"][0]["text"]
            yield ev("response.output_item.added", output_index=i, item=dict(it, summary=[]))
            yield ev("response.reasoning_summary_part.added", output_index=i, summary_index=0, item_id=it["id"],
                     part={"type": "summary_text", "text": ""})
            for s in split(text, p.chunk):
                yield ev("response.reasoning_summary_text.delta", output_index=i, summary_index=0, item_id=it["id"],
                         delta=s)
            yield ev("response.reasoning_summary_text.done", output_index=i, summary_index=0, item_id=it["id"], text=text)
            yield ev("response.reasoning_summary_part.done", output_index=i, summary_index=0, item_id=it["id"],
                     part={"type": "summary_text", "text": text})
        elif it["type"] == "function_call":
            yield ev("response.output_item.added", output_index=i, item=dict(it, arguments="", status="in_progress"))
            for s in split(it["arguments"], 24):
                yield ev("response.function_call_arguments.delta", output_index=i, item_id=it["id"], delta=s)
            yield ev("response.function_call_arguments.done", output_index=i, item_id=it["id"],
                     arguments=it["arguments"])
        elif it["type"] == "custom_tool_call":
            yield ev("response.output_item.added", output_index=i, item=dict(it, input="", status="in_progress"))
            for s in split(it["input"], 24):
                yield ev("response.custom_tool_call_input.delta", output_index=i, item_id=it["id"], delta=s)
            yield ev("response.custom_tool_call_input.done", output_index=i, item_id=it["id"], input=it["input"])
        else:
            yield ev("response.output_item.added", output_index=i, item=dict(it, status="in_progress"))
        yield ev("response.output_item.done", output_index=i, item=it)
    if p.stream_error:
        env = resp_envelope(r, p, rid, "failed", items)
        env["error"] = {"code": "server_is_overloaded" if p.stream_error == "overloaded" else "rate_limit_exceeded",
                        "message": p.stream_error.title()}
        yield ev("response.failed", response=env)
        return
    st = "incomplete" if p.stop == "max_tokens" else "completed"
    yield ev("response." + st, response=resp_envelope(r, p, rid, st, items))


def chat_usage(u):
    inp = u["input"] + u["cache_read"] + u["cache_create"]
    return {"prompt_tokens": inp, "completion_tokens": u["output"], "total_tokens": inp + u["output"],
            "prompt_tokens_details": {"cached_tokens": u["cache_read"], "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": u["reasoning"]}}


def chat_finish(p):
    if p.stop == "max_tokens":
        return "length"
    if p.stop == "refusal":
        return "content_filter"
    return "tool_calls" if any(b[0] == "tool" for b in p.blocks) else "stop"


def chat_json(r, p):
    msg = {"role": "assistant", "content": "".join(b[1] for b in p.blocks if b[0] == "text") or None}
    th = "".join(b[1] for b in p.blocks if b[0] == "thinking")
    if th:
        msg["reasoning_content"] = th
    tc = [{"id": b[1], "type": "function", "function": {"name": b[2].name, "arguments": json.dumps(b[3])}}
          for b in p.blocks if b[0] == "tool"]
    if tc:
        msg["tool_calls"] = tc
    return {"id": new_id("chatcmpl-"), "object": "chat.completion", "created": int(time.time()), "model": r.model,
            "choices": [{"index": 0, "message": msg, "logprobs": None, "finish_reason": chat_finish(p)}],
            "usage": chat_usage(p.usage), "system_fingerprint": "fp_fake"}


def chat_sse(r, p):
    cid, created = new_id("chatcmpl-"), int(time.time())

    def ch(delta, fin=None, **kw):
        d = {"id": cid, "object": "chat.completion.chunk", "created": created, "model": r.model,
             "system_fingerprint": "fp_fake",
             "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": fin}]}
        d.update(kw)
        return None, d
    yield ch({"role": "assistant", "content": ""})
    ti = 0
    for b in p.blocks:
        if b[0] == "thinking":
            for s in split(b[1], p.chunk):
                yield ch({"reasoning_content": s})
        elif b[0] == "text":
            for s in split(b[1], p.chunk):
                yield ch({"content": s})
        else:
            yield ch({"tool_calls": [{"index": ti, "id": b[1], "type": "function",
                                      "function": {"name": b[2].name, "arguments": ""}}]})
            for s in split(json.dumps(b[3]), 24):
                yield ch({"tool_calls": [{"index": ti, "function": {"arguments": s}}]})
            ti += 1
    if p.stream_error:
        yield None, {"error": {"message": p.stream_error.title(), "type": "server_error", "code": 503}}
        return
    # usage rides on the final chunk too when the client did not ask for a separate one
    if r.include_usage:
        yield ch({}, chat_finish(p))
        yield None, {"id": cid, "object": "chat.completion.chunk", "created": created, "model": r.model, "choices": [],
                     "usage": chat_usage(p.usage)}
    else:
        yield ch({}, chat_finish(p), usage=chat_usage(p.usage))
    yield "__raw__", "data: [DONE]\n\n"


def gem_usage(u):
    inp = u["input"] + u["cache_read"] + u["cache_create"]
    d = {"promptTokenCount": inp, "candidatesTokenCount": u["output"], "totalTokenCount": inp + u["output"] + u["reasoning"],
         "promptTokensDetails": [{"modality": "TEXT", "tokenCount": inp}]}
    if u["cache_read"]:
        d["cachedContentTokenCount"] = u["cache_read"]
    if u["reasoning"]:
        d["thoughtsTokenCount"] = u["reasoning"]
    return d


def gem_part(b, s=None):
    if b[0] == "thinking":
        return {"text": b[1] if s is None else s, "thought": True}
    if b[0] == "text":
        return {"text": b[1] if s is None else s}
    return {"functionCall": {"id": b[1], "name": b[2].name, "args": b[3]}, "thoughtSignature": "ZmFrZQ=="}


def gem_finish(p):
    return {"max_tokens": "MAX_TOKENS", "refusal": "SAFETY"}.get(p.stop, "STOP")


def gem_env(r, parts, p, rid, fin=None):
    c = {"content": {"role": "model", "parts": parts}, "index": 0}
    if fin:
        c["finishReason"] = fin
    d = {"candidates": [c], "usageMetadata": gem_usage(p.usage), "modelVersion": r.model, "responseId": rid}
    return d


def gem_json(r, p):
    return gem_env(r, [gem_part(b) for b in p.blocks], p, new_id("r"), gem_finish(p))


def gem_sse(r, p):
    rid = new_id("r")
    evs = []
    for b in p.blocks:
        if b[0] == "tool":
            evs.append([gem_part(b)])
        else:
            evs.extend([[gem_part(b, s)] for s in split(b[1], p.chunk)])
    for i, parts in enumerate(evs):
        last = i == len(evs) - 1
        if last and p.stream_error:
            yield None, {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
            return
        yield None, gem_env(r, parts, p, rid, gem_finish(p) if last else None)


ENC = {"anthropic": (anth_json, anth_sse), "responses": (resp_json, resp_sse), "chat": (chat_json, chat_sse),
       "gemini": (gem_json, gem_sse)}

MODELS = ["claude-opus-4-5", "claude-sonnet-4-5", "claude-haiku-4-5", "gpt-5.1-codex", "gpt-5", "gpt-4.1", "fake-model"]
GEMINI_MODELS = ["gemini-2.5-pro", "gemini-2.5-flash", "gemini-3-pro-preview"]


# --------------------------------------------------------------------------
# HTTP
# --------------------------------------------------------------------------
class State:
    def __init__(self, scenario, log_path, record_dir, requests_max=1000):
        self.scenario = scenario
        self.requests_max = requests_max
        self.lock = threading.Lock()
        self.n = 0
        self.counters: dict[str, int] = {}
        self.requests: list[dict] = []
        self.inflight: dict[int, dict] = {}
        self.log_path = log_path
        self.record_dir = record_dir

    def next_n(self):
        with self.lock:
            self.n += 1
            return self.n

    def bump(self, key):
        with self.lock:
            self.counters[key] = self.counters.get(key, 0) + 1
            return self.counters[key]

    def log(self, rec):
        with self.lock:
            self.requests.append(rec)
            if self.log_path:
                with open(self.log_path, "a", encoding="utf-8") as f:
                    f.write(json.dumps(rec) + "\n")


def load_scenario(name_or_file: str) -> dict:
    if name_or_file in SCENARIOS:
        return dict(SCENARIOS[name_or_file], name=name_or_file)
    if os.path.exists(name_or_file):
        with open(name_or_file, encoding="utf-8") as f:
            d = json.load(f)
        if "scenarios" in d:                       # a file may add several and name a default
            SCENARIOS.update(d["scenarios"])
            return load_scenario(d.get("default") or next(iter(d["scenarios"])))
        d.setdefault("name", os.path.basename(name_or_file))
        return d
    raise SystemExit("unknown scenario %r; built in: %s" % (name_or_file, ", ".join(sorted(SCENARIOS))))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "scripted-model/1"
    state: State

    def log_message(self, *a):
        pass

    # -- plumbing ----------------------------------------------------------
    def _read_body(self) -> bytes:
        if "chunked" in (self.headers.get("Transfer-Encoding") or "").lower():
            out = []
            while True:
                size = int(self.rfile.readline().split(b";")[0].strip() or b"0", 16)
                if size == 0:
                    while self.rfile.readline().strip():
                        pass
                    break
                out.append(self.rfile.read(size))
                self.rfile.readline()
            raw = b"".join(out)
        else:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        enc = (self.headers.get("Content-Encoding") or "").lower()
        if enc == "gzip":
            raw = gzip.decompress(raw)
        elif enc == "deflate":
            raw = zlib.decompress(raw)
        return raw

    def _json(self, status, obj, headers=()):
        data = obj if isinstance(obj, bytes) else json.dumps(obj).encode()
        self.send_response(status)
        names = {k.lower() for k, _ in headers}
        if "content-type" not in names:
            self.send_header("Content-Type", "application/json")
        for k, v in headers:
            self.send_header(k, v)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
        self.rec["status"] = status
        self.rec["resp_bytes"] = len(data)

    def _chunk(self, b: bytes):
        if b:
            self.wfile.write(b"%x\r\n" % len(b) + b + b"\r\n")
            self.rec["resp_bytes"] = self.rec.get("resp_bytes", 0) + len(b)

    # -- dispatch ----------------------------------------------------------
    def _handle(self):
        t0 = time.time()
        st = self.state
        auth = None
        for h in ("x-api-key", "authorization", "x-goog-api-key", "api-key"):
            if self.headers.get(h):
                auth = h
        self.rec = {"n": st.next_n(), "t": round(t0, 3), "method": self.command, "path": self.path, "bytes": 0,
                    "auth_header": auth, "ua": (self.headers.get("User-Agent") or "")[:80]}
        st.inflight[self.rec["n"]] = self.rec
        try:
            raw = self._read_body()
            self.rec["bytes"] = len(raw)
            if self.rec["n"] > st.requests_max:            # an agent in a loop is refused, not fed for ever
                self._json(400, {"error": {"message": "scripted model: more than %d requests" % st.requests_max,
                                           "type": "invalid_request_error"}})
                self.close_connection = True
            else:
                self._route(raw)
        except (BrokenPipeError, ConnectionResetError, socket.timeout):
            self.rec["client_gone"] = True
            self.close_connection = True
        except Exception as e:                                   # a bug here must not look like a model answer
            self.rec["server_bug"] = repr(e)
            sys.stderr.write("scripted model bug: %r on %s\n" % (e, self.path))
            try:
                self._json(500, {"error": {"message": "scripted model bug: %r" % (e,), "type": "scripted_model_bug"}})
            except Exception:
                self.close_connection = True
        finally:
            self.rec["ms"] = int((time.time() - t0) * 1000)
            if st.inflight.pop(self.rec["n"], None) is not None and not self.path.startswith("/__"):
                st.log(self.rec)

    do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = _handle

    def _route(self, raw: bytes):
        st = self.state
        u = urlsplit(self.path)
        path = re.sub(r"/{2,}", "/", unquote(u.path))
        q = parse_qs(u.query)
        if path.startswith("/__"):
            return self._control(path, raw)
        scen_name = self.headers.get("x-fake-scenario")
        m = re.match(r"^/s/([^/]+)(/.*)?$", path)
        if m:
            scen_name = scen_name or m.group(1)
            path = m.group(2) or "/"
        if (self.headers.get("Upgrade") or "").lower() == "websocket":
            self.rec["proto"] = "websocket-refused"
            return self._json(426, {"error": {"message": "websocket not supported", "type": "invalid_request_error"}})
        body = {}
        if raw:
            try:
                body = json.loads(raw)
            except Exception:
                body = {}
            if not isinstance(body, dict):
                body = {}
        if st.record_dir and raw:
            with open(os.path.join(st.record_dir, "%04d.json" % self.rec["n"]), "wb") as f:
                f.write(raw)

        # ---- non-generation endpoints
        scen_early = self._scenario(scen_name, "")
        deny = scen_early.get("all_endpoints") and scen_early["turns"][0].get("status")
        if path.endswith("/messages/count_tokens"):
            if deny:
                return self._err("anthropic", scen_early["turns"][0], "")
            return self._json(200, {"input_tokens": tok(len(raw))}, [("request-id", new_id("req_"))])
        mg = re.search(r"/models/([^/:]+(?:/[^/:]+)*):(\w+)$", path) or re.search(r"^/(v1internal)?:(\w+)$", path)
        if mg and mg.group(2) in ("countTokens",):
            return self._json(200, {"totalTokens": tok(len(raw))})
        if mg and mg.group(2) in ("embedContent", "batchEmbedContents"):
            return self._json(200, {"embedding": {"values": [0.0] * 8}})
        if self.command in ("GET", "HEAD") and re.search(r"/models(/[^:]*)?$", path):
            self.rec["proto"] = "models"
            if deny:
                return self._err("chat", scen_early["turns"][0], "")
            return self._models(path)
        # ---- generation
        r = None
        if self.command == "POST":
            if path.endswith("/messages"):
                r = parse_anthropic(body)
            elif path.endswith("/responses"):
                r = parse_responses(body)
            elif path.endswith("/chat/completions"):
                r = parse_chat(body)
            elif mg and mg.group(2) in ("generateContent", "streamGenerateContent"):
                r = parse_gemini(body, mg.group(1) or body.get("model", "gemini"), mg.group(2).startswith("stream"))
        if r is None:
            self.rec["proto"] = "other"
            if self.command in ("GET", "HEAD") and path == "/":
                return self._json(200, {"ok": True})
            if "event_logging" in path or "telemetry" in path or path.endswith(("/api/hello", "/metrics", "/log")):
                return self._json(200, {})
            return self._json(404, {"error": {"message": "scripted model: no such endpoint %s" % path, "type": "not_found",
                                              "code": 404}})
        self._generate(r, scen_name, q)

    def _scenario(self, name, user_text) -> dict:
        if not name:
            m = re.search(r"\[\[scenario:([\w.\-:]+)\]\]", user_text or "")
            name = m.group(1) if m else None
        if not name:
            # A scenario may name others for prompts that contain certain words.
            words = self.state.scenario.get("prompts", {})
            name = next((words[w] for w in words if w in (user_text or "")), None)
        if not name:
            return self.state.scenario
        base, _, _key = name.partition(":")
        if base in SCENARIOS:
            return dict(SCENARIOS[base], name=name)
        return self.state.scenario

    def _err(self, proto, turn, model):
        status, body, h = error_for(proto, int(turn["status"]), turn.get("error", "server"), turn.get("retry_after"),
                                    model)
        return self._json(status, body, h)

    def _generate(self, r: Req, scen_name, q):
        scen = self._scenario(scen_name, r.user_text)
        turns = scen["turns"]
        idx = min(r.rounds, len(turns) - 1)
        turn = turns[idx]
        aux = r.aux()
        self.rec.update(proto=r.proto, model=r.model, stream=r.stream, scenario=scen.get("name"), turn=idx, aux=aux,
                        tools=[(t.namespace + "." if t.namespace else "") + (t.name or "?") for t in r.tools][:80],
                        forced_tool=r.forced_tool, schema=r.schema is not None, prompt_head=r.user_text[:120])
        active = True
        if turn.get("times"):
            active = not aux and self.state.bump("%s/%d" % (scen.get("name"), idx)) <= int(turn["times"])
        if active and turn.get("drop"):
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            self.rec["status"] = 0
            return
        if active and turn.get("hang"):
            self.rec["status"] = 0
            end = time.time() + float(turn.get("seconds", 3600))
            self.connection.settimeout(1.0)
            while time.time() < end:
                try:
                    if self.connection.recv(1, socket.MSG_PEEK) == b"":
                        break
                except socket.timeout:
                    continue
            self.close_connection = True
            self.rec["client_gone"] = True
            return
        if turn.get("first_byte_ms"):
            time.sleep(turn["first_byte_ms"] / 1000)
        if active and turn.get("status"):
            return self._err(r.proto, turn, r.model)
        if turn.get("malformed") == "html" and not aux:
            return self._json(200, b"<html><body><h1>502 Bad Gateway</h1></body></html>",
                              [("Content-Type", "text/html")])
        p = make_plan(r, turn, aux)
        self.rec["usage"] = p.usage
        self.rec["called"] = [[b[2].name, b[3]] for b in p.blocks if b[0] == "tool"]
        headers = self._ok_headers(r)
        enc_json, enc_sse = ENC[r.proto]
        gem_array = r.proto == "gemini" and r.stream and (q.get("alt") or [""])[0] != "sse"
        if not r.stream:
            if p.malformed:
                return self._json(200, b'{"broken": tru', headers)
            if p.chunk_ms:
                n = sum(len(b[1]) for b in p.blocks if b[0] == "text") / max(1, p.chunk)
                time.sleep(n * p.chunk_ms / 1000)
            return self._json(200, enc_json(r, p), headers)
        if gem_array:
            return self._json(200, [d for _, d in enc_sse(r, p)], headers)
        self._stream(r, p, enc_sse, headers)

    def _ok_headers(self, r):
        now = int(time.time())
        iso = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + 60))
        if r.proto == "anthropic":
            return [("request-id", new_id("req_")), ("anthropic-organization-id", "00000000-0000-0000-0000-000000000000"),
                    ("anthropic-ratelimit-requests-limit", "50"), ("anthropic-ratelimit-requests-remaining", "49"),
                    ("anthropic-ratelimit-requests-reset", iso),
                    ("anthropic-ratelimit-tokens-limit", "80000"), ("anthropic-ratelimit-tokens-remaining", "79000"),
                    ("anthropic-ratelimit-tokens-reset", iso)]
        if r.proto in ("responses", "chat"):
            return [("x-request-id", new_id("req_")), ("openai-processing-ms", "12"),
                    ("x-ratelimit-limit-requests", "500"), ("x-ratelimit-remaining-requests", "499"),
                    ("x-codex-primary-used-percent", "12.5"), ("x-codex-primary-window-minutes", "300"),
                    ("x-codex-primary-reset-at", str(now + 7200)),
                    ("x-codex-secondary-used-percent", "3.0"), ("x-codex-secondary-window-minutes", "10080"),
                    ("x-codex-secondary-reset-at", str(now + 400000))]
        return []

    def _stream(self, r, p, enc_sse, headers):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        for k, v in headers:
            self.send_header(k, v)
        self.end_headers()
        self.rec["status"] = 200
        content = 0
        for ev, d in enc_sse(r, p):
            raw = d if ev == "__raw__" else \
                ("event: %s\n" % ev if ev else "") + "data: " + sse_json(d) + "\n\n"
            is_delta = "delta" in (ev or "") or ev is None
            if p.malformed and is_delta:
                content += 1
                if content == 2:
                    self._break(r, p, ev)
                    return
            if p.malformed == "no_stop" and ev in ("message_stop", "message_delta", "response.completed", "__raw__"):
                continue
            self._chunk(raw.encode("utf-8", "surrogatepass"))
            self.wfile.flush()
            if p.chunk_ms and is_delta:
                time.sleep(p.chunk_ms / 1000)
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _break(self, r, p, ev):
        mode = p.malformed
        if mode == "truncate":
            self._chunk((("event: %s\n" % ev if ev else "") + 'data: {"type":"content_block_del').encode())
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if mode == "no_stop":
            return
        self._chunk((("event: %s\n" % ev if ev else "") + "data: {not json at all]]\n\n").encode())
        self._chunk(b"\xff\xfe: binary junk \x00\x01\n\ndata\n\n")
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()
        self.close_connection = True

    def _models(self, path):
        now = int(time.time())
        ua = (self.headers.get("User-Agent") or "").lower()
        tail = path.rsplit("/models", 1)[1].strip("/")
        if "/v1beta" in path or self.headers.get("x-goog-api-key"):
            ms = [{"name": "models/" + m, "displayName": m, "inputTokenLimit": 1048576, "outputTokenLimit": 65536,
                   "supportedGenerationMethods": ["generateContent", "countTokens"]} for m in GEMINI_MODELS]
            return self._json(200, ms[0] if tail else {"models": ms})
        if self.headers.get("anthropic-version") or "anthropic" in ua:
            ms = [{"type": "model", "id": m, "display_name": m, "created_at": "2025-01-01T00:00:00Z"}
                  for m in MODELS if m.startswith("claude")]
            if tail:
                return self._json(200, dict(ms[0], id=tail))
            return self._json(200, {"data": ms, "has_more": False, "first_id": ms[0]["id"], "last_id": ms[-1]["id"]})
        ms = [{"id": m, "object": "model", "created": now, "owned_by": "fake", "context_length": 200000,
               "context_window": 200000, "max_context_length": 200000} for m in MODELS]
        if tail:
            return self._json(200, dict(ms[0], id=tail))
        return self._json(200, {"object": "list", "data": ms})

    def _control(self, path, raw):
        st = self.state
        if path == "/__health":
            return self._json(200, {"ok": True, "scenario": st.scenario.get("name"), "requests": len(st.requests)})
        if path == "/__requests":
            return self._json(200, st.requests)
        if path == "/__scenarios":
            return self._json(200, SCENARIOS)
        if path == "/__scenario" and self.command == "POST":
            d = json.loads(raw or b"{}")
            st.scenario = load_scenario(d["name"]) if "turns" not in d else d
            if "turns" in d and d.get("name"):
                SCENARIOS[d["name"]] = d
            return self._json(200, {"scenario": st.scenario.get("name")})
        if path == "/__reset":
            with st.lock:
                st.requests.clear()
                st.counters.clear()
            return self._json(200, {"ok": True})
        if path == "/__shutdown":
            self._json(200, {"ok": True})
            threading.Thread(target=self.server.shutdown, daemon=True).start()
            return
        return self._json(404, {"error": "no such control"})


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    allow_reuse_address = True

    def handle_error(self, request, client_address):
        pass


def main():
    ap = argparse.ArgumentParser(description="A scripted model on loopback.")
    ap.add_argument("--port", type=int, default=0, help="0 = any free port; the chosen one is printed")
    ap.add_argument("--scenario", default="hello", help="built-in name or a JSON file")
    ap.add_argument("--log", default=None, help="append one JSON line per request to this file")
    ap.add_argument("--record-dir", default=None, help="dump raw request bodies here (NNNN.json)")
    ap.add_argument("--port-file", default=None, help="also write the port number to this file")
    ap.add_argument("--seconds", type=float, default=600, help="end after this long")
    ap.add_argument("--requests", type=int, default=1000, help="refuse what comes after this many")
    ap.add_argument("--with-stdin", action="store_true", help="end when standard input does")
    ap.add_argument("--list", action="store_true", help="list built-in scenarios and exit")
    a = ap.parse_args()
    if a.list:
        for k, v in sorted(SCENARIOS.items()):
            print(k, json.dumps(v["turns"])[:150])
        return
    if a.record_dir:
        os.makedirs(a.record_dir, exist_ok=True)
    Handler.state = State(load_scenario(a.scenario), a.log, a.record_dir, a.requests)
    srv = Server(("127.0.0.1", a.port), Handler)
    port = srv.server_address[1]
    if a.port_file:
        with open(a.port_file + ".tmp", "w") as f:
            f.write(str(port))
        os.replace(a.port_file + ".tmp", a.port_file)
    print(json.dumps({"port": port, "base_url": "http://127.0.0.1:%d" % port,
                      "scenario": Handler.state.scenario.get("name"), "pid": os.getpid()}), flush=True)

    def end(*_why):                             # requests still open when the server is stopped are logged too
        for rec in list(Handler.state.inflight.values()):
            Handler.state.inflight.pop(rec["n"], None)
            Handler.state.log(dict(rec, in_flight=True, ms=int((time.time() - rec["t"]) * 1000)))
        os._exit(0)
    def follow_stdin():
        while os.read(0, 4096):
            pass
        end()

    signal.signal(signal.SIGTERM, end)
    timer = threading.Timer(a.seconds, end)
    timer.daemon = True
    timer.start()
    if a.with_stdin:
        threading.Thread(target=follow_stdin, daemon=True).start()
    try:
        srv.serve_forever(poll_interval=0.05)
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
