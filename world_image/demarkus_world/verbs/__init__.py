"""The verbs: one module each, one row each in `table`.

    call.py        one request on its way: what a verb gets, the refusal it may raise, what it tells the log
    answers.py     answers to FETCH that are kept, encoded
    conditions.py  `if-none-match` and `if-modified-since`
    children.py    what a caller may see of a directory
    fetch.py       FETCH: documents, versions, content addresses, directories, health
    list.py        LIST: pages of a directory
    versions.py    VERSIONS: the history of a document and whether its chain holds
    lookup.py      LOOKUP: documents and sections that match a query
    watch.py       WATCH: what may be watched, from where on; its first block
    writes.py      what the three writes share: order of checks, refusals of the engine
    publish.py     PUBLISH, and unarchive, which is a PUBLISH without a body
    publish_decision.py  a PUBLISH that decides a proposal
    append.py      APPEND
    archive.py     ARCHIVE
    table.py       verb -> function, and the steps that all verbs share

A verb is a function of a `Call` that returns a response. It opens no socket and reads no clock.
"""
