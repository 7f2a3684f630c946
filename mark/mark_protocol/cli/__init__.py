"""`mark`: the Mark protocol by hand, against any server of it.

main.py       the command and its sub-commands
server.py     options that say which server, whom to trust and with which credential; one request
output.py     how a response is shown, and what the exit status is
body.py       where the text of a write comes from
metadata.py   KEY=VALUE on the command line
fetch.py      FETCH          publish.py   PUBLISH, also to unarchive
list.py       LIST           append.py    APPEND
versions.py   VERSIONS       archive.py   ARCHIVE
"""
