"""A small MCP server on standard input and output, with four tools: `add` only reads, `env` tells
what it sees of its environment, `fail` fails and so does `look`, which only reads. With `STRICT` in its
environment it ends at a first message that is not `initialize`."""

import json
import os
import sys

TOOLS = [
    {"name": "add", "description": "a + b", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "env", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "fail", "inputSchema": {"type": "object"}},
    {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
]


def answer(method, params):
    if method == "initialize":
        info = {"name": "small", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        name, given = params["name"], params.get("arguments", {})
        if name == "add":
            text = str(given["a"] + given["b"])
        elif name == "env":
            text = json.dumps(dict(os.environ))
        else:
            image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
            words = {"type": "text", "text": "no"}
            return {"isError": True, "content": [words, image], "structuredContent": {"why": "no"}}
        return {"content": [{"type": "text", "text": text}]}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "server/discover" and "STRICT" in os.environ:
        # As servers do that take nothing but `initialize` first.
        sys.exit(1)
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    result = answer(message["method"], message.get("params") or {})
    if result is None:
        reply["error"] = {"code": -32601, "message": "unknown method"}
    else:
        reply["result"] = result
    print(json.dumps(reply), flush=True)
