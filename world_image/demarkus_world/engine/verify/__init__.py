"""The verification of a store from its blobs: that nothing was lost, altered, reordered or slipped in.

verify.py     the whole of it, and its report
findings.py   verdicts, and what they say in words
replay.py     the log, slot by slot
restored.py   the marker, the plan of a restore and the restore entries: whether they tell the same
pieces.py     where slots are kept: each for itself, in bundles
ledger.py     what entries add up to, and whether each was possible
contents.py   the bytes of the retained versions
snapshots.py  checkpoints: signed, whole, and about this log
"""
