"""The broker: one MCP endpoint for people and agents in front of the worlds of a universe.

Pure: settings (broker.yaml), keys (its key files), bearer (who is let in), identity (what a person may do where),
limits (how much is taken of one asker), origins (whose Host and Origin are taken), resource (how the endpoint presents
itself).
Worlds: worlds/ (which there are, grants, the pool of connections to them).
Sign-in: oauth/ (the authorization server).
State: state/ (what outlives a process: codes, devices, logins, registrations).
MCP: mcp/ (the tools, the gate before them, the SDK's server).
Edges: front (what every HTTP request passes), metrics (names), app (all of it put together), cli (`demarkus-broker`).

A bearer signed with one of the broker's keys is the only credential that `/mcp` takes; signing in is how to get one.
"""
