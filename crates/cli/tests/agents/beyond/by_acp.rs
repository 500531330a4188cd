//! Agents by ACP that are not driven every day.

crate::acp::by_acp!(codex copilot kilo droid hermes);
