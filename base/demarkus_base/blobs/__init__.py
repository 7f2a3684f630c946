"""Immutable objects by name, the ground the stores stand on.

port.py         the four calls (get, create, delete, list), their errors, what a key is
directory.py    files on a volume: durable create, one writer
memory.py       a dictionary
gcs.py          a bucket of Google Cloud Storage
hedged.py       a second request for the reads that are slow
observed.py     how the calls go: counted, timed, and whether the store answers at all
"""
