"""The Mark protocol: the wire, and nothing but the wire. Whoever serves or asks for documents builds on this room.

The modules of this folder are pure: bytes and values in, bytes, values and exceptions out; no socket, clock or random
source. Lower lines of the map use higher ones. Text that stands for arbitrary bytes holds those that are no UTF-8 as
surrogate escapes, so that everything can be given back as it came. No exception holds a credential.

    status.py       what a response can say, fixed messages, the body of an error
    limits.py       every limit of the protocol
    numbers.py      integers as the Go peers spell them
    times.py        RFC 3339, as strict as theirs
    scalars.py      what plain YAML text is taken for, and how text is quoted
    frontmatter.py  metadata blocks: read, written, ordered
    request.py      requests to bytes and back
    response.py     responses to bytes and back
    paths.py        canonical form, versions, content addresses, what a store can keep
    urls.py         mark:// URLs and the identity of a document
    metadata.py     keys a write may carry, tags, the default type, APPEND's merge
    versions.py     stored version bytes, etag, link to the version before
    rebuild.py      stored bytes from what FETCH tells of a version
    patterns.py     path patterns of credentials
    tokens.py       capability tokens and their files
    grants.py       signed grants and key sets
    listings.py     generated bodies: LIST, VERSIONS, conflict
    cursors.py      where a page of LIST begins
    lookups.py      the table of matches that LOOKUP answers
    changes.py      the blocks of a WATCH stream, and its cursors
    outline.py      headings, anchors and sections of a document, its title
    links.py        links of a document
    graphs.py       documents and their links as a document
    hash_indexes.py which servers have the document with a hash
    merge.py        three-way merge of texts by lines

    transport/      Mark over QUIC: the port and its engines
    client/         connections, pool, retries, verbs
    cli/            the command `mark`

Three things that surprise: a response's `status` is sorted among the other keys; a stored version's block looks like
YAML and is not; and a request without metadata whose body begins with a fence needs an empty block in front.
"""
