"""Transfer: documents brought in from elsewhere byte for byte, and the store written out as the tree of a Go server.

The way in
    importing.py   the import: look at every candidate, plan, adopt; taken up where it stopped
    runs.py        which versions come over (pure)
    model.py       what sources offer, what is here

Sources
    gotree.py      the tree of a Go server, today's layout and that of old
    wire.py        a running server
    git.py         a git repository: a version for each commit
    folder.py      a plain folder

The way out
    exporting.py   the export

Beside them
    sources.py     which source is meant, and how it is opened
    stores.py      the store a transfer works on; dry.py: one that only seems to be written
    rooted.py      files below a folder, links never followed
    spool.py       bytes of a document's versions between examination and adoption
    many.py        work on many things at once
    progress.py    the bar on a terminal
    report.py      what became of it all
"""
