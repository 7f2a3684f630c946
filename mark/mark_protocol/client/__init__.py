"""A Mark client over shared connections.

connection.py   a dialed connection with the count of its users; it outlives its eviction until the last one is done
pool.py         connections to one server: dialing, spreading requests, forgetting the dead
client.py       the verbs, the retry rule, and what a failed request means
patience.py     a client that asks again what a server is too busy for
watch.py        changes as they happen: the stream of a WATCH, opened again whenever it ends
walk.py         directories and all documents below one
verification.py a document's retained versions, rebuilt and compared with what the server says
crawl.py        documents and their links, from one on
settle.py       what became of a write whose response was lost
"""
