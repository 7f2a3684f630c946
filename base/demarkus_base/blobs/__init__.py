"""Immutable objects by name, the ground the stores stand on.

port.py         the four calls (get, create, delete, list), their errors, what a key is
directory.py    files on a volume: durable create, one writer
memory.py       a dictionary
"""
