"""The view: what the log adds up to, in SQLite, disposable.

local.py        LocalView: opened or thrown away, fed slot by slot, copied, compared
reads.py        what it answers: documents, versions, directories, bodies
apply.py        how it changes, entry by entry
catalog.py      what a stored version says of its document: title, tags, importance
digest.py       one hash over everything in it
paths.py        what follows from a path alone
schema.sql      the tables
"""
