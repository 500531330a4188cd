"""An agent made with the official Python SDK of ACP, for the end-to-end tests.

It knows nothing of Ostler. It begins in a mode that asks nobody, offers one that asks, and does as
its prompt says: `wait` waits to be cancelled, anything else edits a file when it is allowed to.
"""

import asyncio

from acp import PROTOCOL_VERSION, Agent, InitializeResponse, NewSessionResponse, PromptResponse
from acp import SetSessionModeResponse, run_agent
from acp.helpers import (
    plan_entry,
    start_edit_tool_call,
    text_block,
    tool_content,
    tool_diff_content,
    update_agent_message,
    update_agent_thought,
    update_plan,
    update_tool_call,
)
from acp.schema import PermissionOption, SessionMode, SessionModeState, ToolCallUpdate

SESSION = "stranger-1"


class Stranger(Agent):
    def __init__(self):
        self.mode = "yolo"
        self.cancelled = asyncio.Event()

    def on_connect(self, conn):
        self.client = conn

    async def initialize(self, protocol_version, **_):
        return InitializeResponse(protocol_version=PROTOCOL_VERSION)

    async def new_session(self, cwd, **_):
        modes = [SessionMode(id=mode, name=mode) for mode in ("yolo", "default")]
        state = SessionModeState(current_mode_id=self.mode, available_modes=modes)
        return NewSessionResponse(session_id=SESSION, modes=state)

    async def set_session_mode(self, session_id, mode_id, **_):
        self.mode = mode_id
        return SetSessionModeResponse()

    async def say(self, update):
        await self.client.session_update(SESSION, update)

    async def prompt(self, prompt, session_id, **_):
        if prompt[0].text.startswith("wait"):
            await self.say(update_agent_message(text_block("waiting")))
            await self.cancelled.wait()
            return PromptResponse(stop_reason="cancelled")
        await self.say(update_agent_thought(text_block("a stranger asks me")))
        await self.say(update_plan([plan_entry("edit", priority="high", status="pending")]))
        diff = tool_diff_content("a", "new", "old")
        await self.say(start_edit_tool_call("call-1", "edit it", "a", diff))
        options = [
            PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
            PermissionOption(option_id="no", name="Reject", kind="reject_once"),
        ]
        call = ToolCallUpdate(tool_call_id="call-1", title="edit it", kind="edit")
        answer = await self.client.request_permission(SESSION, call, options)
        allowed = getattr(answer.outcome, "option_id", None) == "yes"
        status = "completed" if allowed else "failed"
        content = [diff, tool_content(text_block("edited"))] if allowed else None
        await self.say(update_tool_call("call-1", status=status, content=content))
        word = "allowed" if allowed else "not allowed"
        await self.say(update_agent_message(text_block(f"in mode {self.mode} I was {word}")))
        return PromptResponse(stop_reason="end_turn")

    async def cancel(self, session_id, **_):
        self.cancelled.set()


asyncio.run(run_agent(Stranger()))
