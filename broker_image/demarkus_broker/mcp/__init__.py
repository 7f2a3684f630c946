"""The MCP side of the gateway.

envelope  outcomes and refusals as MCP tool results
gate      arguments, then authorization, before any tool
server    the SDK's server over the table of tools, the resources and the prompts
tools/    the tools, one module each

resources     documents as resources, and what completes an address
prompts       tasks that people start from a menu
instructions  what every agent is told when it connects
"""
