"""The commands of `demarkus-world`, one module each, each with one click command.

serve.py      serve: one world, from a configuration file or as a drop-in for a Go server
token.py      token: make and list entries of a token file
export.py     export: write a store as the tree of a Go server
import_.py    import: bring documents in, byte for byte
transfers.py  what these two have in common
prune.py      prune: take the oldest versions of a document out of its history
sweep.py      sweep: delete from the store what nothing refers to
keeping.py    what these two have in common
restore.py    restore: make a store from another one, up to an entry or a time
verify.py     verify: read a whole store and say what was altered
"""
