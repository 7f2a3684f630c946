"""The store engine: an append-only commit log over four blob calls.

model.py          what verbs and engine exchange: records, View, Write, Written, ChainReport
refusals.py       why a write or read did not happen
engine.py         Engine: the interface the verbs see (names of the two files above are there too)
"""
