"""The portable engine: QUIC in Python on aioquic. It runs everywhere, several times slower than a native one.

quic.py           aioquic's connection held to our limits; all that touches its private parts
udp.py            sockets, read in batches
packets.py        replies that need no state: version negotiation, Retry, refusal
configuration.py  what aioquic is told on either side
connection.py     an accepted connection: requests in, answers out, deadlines and budgets (no socket, no clock)
listener.py       the UDP socket of a server: admission, timers, transmission
notices.py        log lines about unwanted traffic, not too many
dialer.py         dialing: a host's addresses until one answers
dialed.py         a client's connection: requests out, answers in, its timers
resets.py         stateless resets: telling clients that their connection is no more
"""
