"""Proofs over an append-only log: that an entry is in it, that it only ever grew, and who says so.

tree    Merkle tree hashes: leaves, interior nodes, the right edge, roots (RFC 6962)
proofs  inclusion and consistency proofs, made and verified (RFC 9162)
notes   signed statements of size and root (C2SP signed-note, tlog-checkpoint)
"""
