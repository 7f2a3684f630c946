"""The store engine: an append-only commit log over four blob calls.

What the verbs see
    engine.py         Engine: open, view, stored, write, check_chain, close (and the names of the next two)
    model.py          what is exchanged: records, View, Write, Written, ChainReport
    refusals.py       why a write or a read did not happen

What is stored
    canonical.py      canonical JSON
    keys.py           the names of the objects
    identity.py       world.json: whose store this is
    entries.py        the facts of the log
    slots.py          the objects of the log: entries that became true together, chained

How it changes
    preconditions.py  what a write comes to, given what is there (pure)
    decisions.py      what that rests on, and what it is: values
    judgement.py      whether content may be kept: secrets, personal data, policy (pure)
    inspection.py     what that rests on: the policy in force, findings in a body
    rules.py          what the owner lays down: floors, holds, quotas (pure)
    tentative.py      what is there, counting what is decided and not durable yet
    members.py        writes in line, and the slot they make
    staging.py        the bytes of writes on their way into the store, ahead of their slots
    committer.py      the line, and the one create that makes it true
    fairness.py       turns taken with other writers (pure)
    space.py          a full store: content waits, what makes room goes on
    sweep.py          what nothing refers to really goes

How it is read
    opening.py        whose store it is, whether it may be served, its log up to the newest entry
    log.py            start, following other writers, the view's only writer
    reader.py         the slots of a store in order, from bundles or one by one
    bundles.py        copies of many slots in one object
    checkpoints.py    what the log adds up to, copied into the store and signed
    upkeep.py         when to bundle, to make a checkpoint, to unlink bundled slots
    indexer.py        keeps the index of sections up with the log
    versions.py       stored bytes: checked, cached
    chain.py          the check of a document's history
    parallel.py, retry.py   many calls at once; calls again

How it is proven
    proof.py          the Merkle tree over the log: edge, inclusion and consistency proofs
    nodes.py          the table of the tree's nodes, disposable
    notes.py          what the world signs: notes of size and root, statements
    scrub.py          every retained version read again, slowly, while the world runs
    progress.py       how far the scrub has come, kept over restarts
    verify/           a whole store judged from its blobs

How it is made from another one
    restore/          a copy up to an entry or a time, as another incarnation of the same history
    restoration.py    the slot that ends it, known beforehand; a store without it is not opened
    lineage.py        which incarnation wrote which part of a log, by its restore entries (pure)
"""
