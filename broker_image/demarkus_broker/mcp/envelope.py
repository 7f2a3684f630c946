"""The envelope of every answer: an outcome or a refusal as an MCP tool result.

The text is for models and people: `status: <word>`, one line for each metadata key, what helps next, an empty line, the
body. The structured content is the same for programs. A world's own answer is a result; only what the gateway refuses
or can't do is an error (`isError`).
"""

from __future__ import annotations

from typing import Any

import mcp_types

from demarkus_broker.mcp.tools.tool import Outcome, Refusal


def result(outcome: Outcome) -> mcp_types.CallToolResult:
    """The result that carries an outcome."""
    lines = [f"status: {outcome.status}", *(f"{key}: {value}" for key, value in outcome.keys.items())]
    if outcome.help:
        lines.append(f"help: {outcome.help}")
    structured: dict[str, Any] = {"status": outcome.status, "metadata": dict(outcome.keys)}
    if outcome.help:
        structured["help"] = outcome.help
    if outcome.body:
        structured["body"] = outcome.body
    text = "\n".join(lines) + "\n" + (f"\n{outcome.body}" if outcome.body else "")
    return _tool_result(text, {**structured, **outcome.data})


def error(refusal: Refusal) -> mcp_types.CallToolResult:
    """The result that carries a refusal."""
    lines = [f"error: {refusal.kind}", refusal.message]
    structured: dict[str, Any] = {"error": refusal.kind.value, "message": refusal.message}
    if refusal.help:
        lines.append(f"help: {refusal.help}")
        structured["help"] = refusal.help
    return _tool_result("\n".join(lines) + "\n", structured, is_error=True)


def _tool_result(text: str, structured: dict[str, Any], *, is_error: bool = False) -> mcp_types.CallToolResult:
    return mcp_types.CallToolResult(
        content=[mcp_types.TextContent(type="text", text=text)], structured_content=structured, is_error=is_error
    )
