"""The MCP server: the SDK's low-level server over our table of tools, without sessions.

Every call goes the same way: row of the table, gate, handler, envelope; one log line and one metric each. The SDK's own
schema guessing from function signatures is not used: the table is the one source of what a tool takes and may do.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

import mcp_types
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError

from demarkus_broker.front import MAX_BODY, PERSON
from demarkus_broker.identity import Person
from demarkus_broker.mcp import envelope, resources
from demarkus_broker.mcp.gate import admit
from demarkus_broker.mcp.instructions import INSTRUCTIONS
from demarkus_broker.mcp.prompts import PROMPTS, PromptError, render
from demarkus_broker.mcp.tools.table import PROFILES
from demarkus_broker.mcp.tools.tool import Cost, Kind, Refusal, Tool
from demarkus_broker.metrics import Metrics
from demarkus_broker.worlds.universe import Universe

log = logging.getLogger(__name__)

_NOT_IN_AGENT = re.compile(r"[^A-Za-z0-9._/+ -]+")


class Gateway:
    """Answers tools, resources and prompts for the callers that the front has let in."""

    def __init__(
        self, universe: Universe, *, version: str, metrics: Metrics, profile: Callable[[], str] = lambda: "full"
    ) -> None:
        """`profile` says which tools are offered now, a key of PROFILES."""
        self._universe = universe
        self._metrics = metrics
        self._profile = profile
        self._listed = {name: [described(tool) for tool in tools.values()] for name, tools in PROFILES.items()}
        self.server: Server[Any] = Server(
            "demarkus",
            title="Demarkus",
            version=version,
            instructions=INSTRUCTIONS,
            get_tool_input_schema=self._schema,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_completion=self._complete,
        )
        self.server.middleware.append(self._observe)
        self.sessions = StreamableHTTPSessionManager(
            self.server, json_response=True, stateless=True, max_request_body_size=MAX_BODY
        )

    @property
    def _tools(self) -> Mapping[str, Tool[Any]]:
        return PROFILES[self._profile()]

    def _schema(self, name: str) -> Mapping[str, Any] | None:
        return next((tool.input_schema for tool in self._listed[self._profile()] if tool.name == name), None)

    async def _list_tools(
        self, context: ServerRequestContext[Any], params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListToolsResult:
        return mcp_types.ListToolsResult(tools=self._listed[self._profile()])

    async def _list_resources(
        self, context: ServerRequestContext[Any], params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListResourcesResult:
        homes = resources.homes(self._universe, _person(context))
        listed = [
            mcp_types.Resource(
                uri=str(home), name=home.world, title=f"Index of {home.world}", mime_type=resources.MARKDOWN
            )
            for home in homes
        ]
        return mcp_types.ListResourcesResult(resources=listed)

    async def _list_templates(
        self, context: ServerRequestContext[Any], params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListResourceTemplatesResult:
        template = mcp_types.ResourceTemplate(
            uri_template=resources.TEMPLATE,
            name="document",
            title="Document of a world",
            description="A document, or with #<anchor> a section of it",
            mime_type=resources.MARKDOWN,
        )
        return mcp_types.ListResourceTemplatesResult(resource_templates=[template])

    async def _read_resource(
        self, context: ServerRequestContext[Any], params: mcp_types.ReadResourceRequestParams
    ) -> mcp_types.ReadResourceResult:
        uri = params.uri
        try:
            async with asyncio.timeout(Cost.READ.deadline):
                content = await resources.read(self._universe, _person(context), uri)
        except Refusal as refusal:
            code = mcp_types.INTERNAL_ERROR if refusal.kind is Kind.TRY_LATER else mcp_types.INVALID_PARAMS
            raise MCPError(code=code, message=f"{refusal.message} {refusal.help}".strip(), data={"uri": uri}) from None
        except TimeoutError:
            raise MCPError(code=mcp_types.INTERNAL_ERROR, message="no answer in time; try again") from None
        held: mcp_types.TextResourceContents | mcp_types.BlobResourceContents
        if content.text is not None:
            held = mcp_types.TextResourceContents(uri=uri, mime_type=resources.MARKDOWN, text=content.text)
        else:
            held = mcp_types.BlobResourceContents(uri=uri, mime_type="application/octet-stream", blob=content.blob)
        return mcp_types.ReadResourceResult(contents=[held])

    async def _list_prompts(
        self, context: ServerRequestContext[Any], params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListPromptsResult:
        listed = [
            mcp_types.Prompt(
                name=prompt.name,
                title=prompt.title,
                description=prompt.description,
                arguments=[
                    mcp_types.PromptArgument(name=one.name, description=one.description, required=one.required)
                    for one in prompt.arguments
                ],
            )
            for prompt in PROMPTS.values()
        ]
        return mcp_types.ListPromptsResult(prompts=listed)

    async def _get_prompt(
        self, context: ServerRequestContext[Any], params: mcp_types.GetPromptRequestParams
    ) -> mcp_types.GetPromptResult:
        try:
            prompt, text = render(params.name, params.arguments or {})
        except PromptError as error:
            raise MCPError(code=mcp_types.INVALID_PARAMS, message=str(error)) from None
        message = mcp_types.PromptMessage(role="user", content=mcp_types.TextContent(type="text", text=text))
        return mcp_types.GetPromptResult(description=prompt.description, messages=[message])

    async def _complete(
        self, context: ServerRequestContext[Any], params: mcp_types.CompleteRequestParams
    ) -> mcp_types.CompleteResult:
        person, begun = _person(context), params.argument.value
        known = (params.context.arguments if params.context else None) or {}
        values: list[str] = []
        try:
            async with asyncio.timeout(Cost.LOCAL.deadline):
                match params.argument.name:
                    case "world":
                        values = resources.complete_world(self._universe, person, begun)
                    case "path":
                        values = await resources.complete_path(self._universe, person, known.get("world", ""), begun)
                    case "url":
                        values = await resources.complete_url(self._universe, person, begun)
        except TimeoutError:
            pass  # nobody waits for a completion
        most = resources.MOST_COMPLETIONS
        return mcp_types.CompleteResult(
            completion=mcp_types.Completion(values=values[:most], total=len(values), has_more=len(values) > most)
        )

    async def _call_tool(
        self, context: ServerRequestContext[Any], params: mcp_types.CallToolRequestParams
    ) -> mcp_types.CallToolResult:
        tool = self._tools.get(params.name)
        if tool is None:
            self._metrics.calls.labels(tool="unknown", outcome="refused").inc()
            raise MCPError(code=mcp_types.INVALID_PARAMS, message="Unknown tool")
        person = _person(context)
        started = time.perf_counter()
        result, word, worlds = await self._answer(tool, params.arguments or {}, person, _agent(context))
        seconds = time.perf_counter() - started
        self._metrics.calls.labels(tool=tool.name, outcome=word).inc()
        self._metrics.call_seconds.labels(tool=tool.name).observe(seconds)
        fields = {
            "tool": tool.name,
            "outcome": word,
            "worlds": worlds,
            "subject": self._universe.label(person),
            "revision": context.protocol_version,
            "ms": round(seconds * 1000, 1),
        }
        log.info("tool called", extra={"fields": fields})
        return result

    async def _answer(
        self, tool: Tool[Any], given: Mapping[str, Any], person: Person, agent: str
    ) -> tuple[mcp_types.CallToolResult, str, list[str]]:
        """Gate and handler, within the time of the tool's cost class: the result, its word, the worlds it was about."""
        worlds: list[str] = []
        try:
            async with asyncio.timeout(tool.cost.deadline):
                call = admit(tool, given, person=person, agent=agent, worlds=self._universe)
                worlds = sorted({target.entry.name for target in call.targets.values()})
                outcome = await tool.handler(call)
                return envelope.result(outcome), outcome.status, worlds
        except Refusal as error:
            refusal = error
        except TimeoutError:
            kind = Kind.OUTCOME_UNKNOWN if tool.cost is Cost.WRITE else Kind.TRY_LATER
            message = f"no answer within {tool.cost.deadline:g} s"
            refusal = Refusal(kind, message, "Fetch the document to see how it stands.")
        except Exception:
            log.exception("tool failed", extra={"fields": {"tool": tool.name}})
            refusal = Refusal(Kind.BUG, "the gateway failed at this call", "Its log says more; it will fail again.")
        return envelope.error(refusal), refusal.kind.value, worlds

    async def _observe(self, ctx: ServerRequestContext[Any], call_next: CallNext) -> HandlerResult:
        """One log line for every message that is no call of a tool."""
        if ctx.method != "tools/call":
            fields = {"method": ctx.method[:64], "revision": ctx.protocol_version}
            log.info("message", extra={"fields": fields | {"subject": self._universe.label(_person(ctx))}})
        return await call_next(ctx)


def _person(context: ServerRequestContext[Any]) -> Person:
    """Whom the front has let in with this message."""
    assert context.request is not None  # HTTP is the only transport
    person: Person = context.request.scope[PERSON]
    return person


def described(tool: Tool[Any]) -> mcp_types.Tool:
    """A row of the table as clients see it."""
    reads = tool.cost is not Cost.WRITE
    return mcp_types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=_without_titles(tool.arguments.model_json_schema()),
        annotations=mcp_types.ToolAnnotations(
            read_only_hint=reads,
            destructive_hint=None if reads else tool.destructive,
            idempotent_hint=None if reads else tool.idempotent,
            open_world_hint=False,
        ),
    )


def _without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without what costs every session tokens and says nothing: generated titles, the model's docstring."""
    properties = {
        name: {key: value for key, value in member.items() if key != "title"}
        for name, member in schema.get("properties", {}).items()
    }
    kept = {key: value for key, value in schema.items() if key not in ("title", "description")}
    return {**kept, "properties": properties}


def _agent(context: ServerRequestContext[Any]) -> str:
    """The name of the writing program: what the client calls itself, else the product in its User-Agent header."""
    client = context.session.client_params
    name = client.client_info.name if client else ""
    if not name and context.request is not None:
        name = context.request.headers.get("user-agent", "").partition("/")[0]
    return _NOT_IN_AGENT.sub("", name).strip()[:64] or "mcp"
