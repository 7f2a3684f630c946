"""What the three services share, and nothing of the wire.

blobs/          immutable objects by name: the ground under every store
tlog/           proofs over an append-only log: tree, proofs, signed notes
reserve.py      space put by on a volume
settings.py     configuration files watched by content
logs.py         JSON logs
metrics.py      a registry, and its exposition
httpd.py        a small HTTP server for probes, scrapers and the operator
health.py       /livez, /readyz, /metrics over plain HTTP
lifeline.py     end when the starter ends
"""
