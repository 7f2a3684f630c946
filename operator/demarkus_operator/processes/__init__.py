"""Asking running worlds and gateways: where they are, and what they say.

port    what the reconcilers need of it
readyz  one question to a process, and its answer as a report
asked   all processes of a World or Universe, asked where one function says they are
pods    where they are in a cluster
"""
