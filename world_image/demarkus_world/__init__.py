"""The world server: a versioned store of markdown documents, served by the Mark protocol over QUIC.

    settings.py    `world.yaml` as a value, and its problems as sentences
    authority.py   who may do what: one pinned rule set
    policy.py      what a world asks of documents, and the document that says so
    content.py     secrets (content_secrets.py) and personal data (content_personal.py) in text
    engine/        the store: an append-only commit log, its preconditions, its group commit
    view/          what the log says, in a form that answers questions
    transfer/      import from elsewhere, export as the tree of a Go server
    verbs/         FETCH, LIST, VERSIONS, PUBLISH, APPEND, ARCHIVE, LOOKUP, WATCH: one table
    proposals.py   writes that wait for somebody's decision
    seeds.py       what the configuration writes into the world
    changes.py     the log as changes of documents, for those who watch
    watches.py     the open streams of WATCH
    admission.py   rates of callers, slots of requests
    metrics.py     the names of all metrics; lag.py measures how late the event loop is
    service.py     a request from the transport to its answer and its log line
    management.py  the operator's port: notes and proofs; management_calls.py says who may ask
    control.py     the control socket of a world on a volume
    housekeeping.py  prune and sweep as commands, at the socket or by themselves
    sources.py     configuration, tokens, key set and certificate from their files, watched
    uses.py        when tokens were last used
    stores.py      the blobs behind `store`: a directory, a bucket, memory
    server.py      the composition root
    dropin.py      a folder of a Go server, served without a configuration file
    cli.py         `demarkus-world`; its commands are in commands/

Decisions (settings, authority, verbs, preconditions) are functions of values; sockets, files and clocks are touched by
`service`, `sources`, `stores`, `server` and the engine's drivers alone.
"""
