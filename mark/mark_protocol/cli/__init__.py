"""`mark`: the Mark protocol by hand, against any server of it.

main.py       the command and its sub-commands
server.py     options that say which server, whom to trust and with which credential; one request
output.py     how a response is shown, and what the exit status is
body.py       where the text of a write comes from
metadata.py   KEY=VALUE on the command line
progress.py   how far a long work is, on a terminal

One verb: fetch.py, list.py, versions.py, lookup.py, publish.py (also to unarchive), append.py, archive.py, watch.py

More than one:
proposals.py  what waits for a decision, and deciding it
verify.py     histories checked from outside
context.py    the primer: hub, newest journal entries, roadmap
export.py     a tree of files
graph.py      documents and their links
completion.py the script with which a shell completes `mark`
"""
