"""An agent made with pydantic-acp, as its quick start makes one, with two plain tools, which never
ask unless `--asks` is given. The model is at OPENAI_BASE_URL."""

import pathlib
import subprocess
import sys

from pydantic_acp import run_acp
from pydantic_ai import Agent

agent = Agent("openai-chat:gpt-5", name="coder")
asks = "--asks" in sys.argv


@agent.tool_plain(requires_approval=asks)
def write_file(path: str, content: str) -> str:
    """Writes a text file."""
    pathlib.Path(path).write_text(content)
    return f"wrote {path}"


@agent.tool_plain(requires_approval=asks)
def run_shell_command(command: str) -> str:
    """Runs a shell command and returns what it printed."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


run_acp(agent=agent)
