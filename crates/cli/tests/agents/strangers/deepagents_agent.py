"""An agent made with deepagents-acp, as its README makes one: the library's own file and shell tools
on the workspace, which never ask unless `--asks` is given. The model is at ANTHROPIC_BASE_URL."""

import asyncio
import sys

from acp import run_agent
from deepagents import create_deep_agent
from deepagents.backends import LocalShellBackend
from deepagents_acp.server import AgentServerACP
from langchain_anthropic import ChatAnthropic
from langgraph.checkpoint.memory import MemorySaver

ASKED = ["write_file", "edit_file", "execute"] if "--asks" in sys.argv else []


def build(context):
    return create_deep_agent(
        model=ChatAnthropic(model="claude-sonnet-4-5", max_retries=0),
        checkpointer=MemorySaver(),
        backend=LocalShellBackend(root_dir=context.cwd, virtual_mode=True),
        interrupt_on={name: True for name in ASKED},
    )


asyncio.run(run_agent(AgentServerACP(agent=build)))
