"""An agent that calls its tools over MCP, as most do, and marks its end by one of them."""
import json, os, urllib.request

headers = {"Authorization": f"Bearer {os.environ['CA_LEASE_TOKEN']}", "Content-Type": "application/json",
           "Accept": "application/json, text/event-stream"}


def call(tool, **arguments):
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    request = urllib.request.Request(os.environ["MCP_SERVER_URL"], json.dumps(body).encode(), headers)
    text = urllib.request.urlopen(request).read().decode()
    data = next((line[5:] for line in text.splitlines() if line.startswith("data:") and "{" in line), text)
    return json.dumps(json.loads(data))


print(json.dumps({"type": "progress", "summary": call("read_file", path="notes.txt")}), flush=True)
print(json.dumps({"type": "comment", "text": call("no_such_tool", a=1)}), flush=True)
call("mark_complete", text="marked as done")
