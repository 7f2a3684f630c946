"""The MCP side of the gateway.

envelope  outcomes and refusals as MCP tool results
gate      arguments, then authorization, before any tool
server    the SDK's server over the table of tools
tools/    the tools, one module each
"""
