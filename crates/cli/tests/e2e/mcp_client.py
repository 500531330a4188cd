"""A client of the official SDK. Takes a list of calls as JSON on standard input, makes them in
order and prints what came back as one line of JSON.

    mcp_client.py http MODE          over HTTP, to MCP_SERVER_URL with OSTLER_LEASE_TOKEN
    mcp_client.py stdio MODE CMD...  over the standard input and output of a command
"""

import asyncio
import json
import os
import sys

from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client


def server(how, command):
    if how == "stdio":
        return StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    bearer = {"Authorization": "Bearer " + os.environ["OSTLER_LEASE_TOKEN"]}
    client = create_mcp_http_client(headers=bearer)
    return streamable_http_client(os.environ["MCP_SERVER_URL"], http_client=client)


async def main(how, mode, *command):
    said = {"results": []}
    async with Client(server(how, command), mode=mode, read_timeout_seconds=30) as client:
        said["revision"] = client.protocol_version
        said["server"] = client.server_info.name
        said["tools"] = [tool.model_dump(mode="json", by_alias=True) for tool in (await client.list_tools()).tools]
        for name, arguments in json.load(sys.stdin):
            try:
                result = await client.call_tool(name, arguments)
                said["results"].append({"error": result.is_error, "value": result.structured_content})
            except MCPError as error:
                said["results"].append({"code": error.error.code, "data": error.error.data})
    print(json.dumps(said))


asyncio.run(main(*sys.argv[1:]))
