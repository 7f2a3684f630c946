"""The view: what the log adds up to, in SQLite, disposable.

local.py        LocalView: opened or thrown away, fed slot by slot, copied, compared
reads.py        what it answers: documents, versions, directories, bodies
apply.py        how it changes, entry by entry
catalog.py      what a stored version says of its document: title, tags, importance
digest.py       one hash over everything in it
search.py       LOOKUP over the catalog and over sections; filters.py, words.py: what is asked for
trigrams.py     which rows of the catalog can hold a text, without looking at them
sections.py     the index of sections, a database of its own that may lag (sections.sql)
paths.py        what follows from a path alone
schema.sql      the tables
"""
