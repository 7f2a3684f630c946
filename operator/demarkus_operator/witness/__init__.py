"""Asking Worlds for proof of their history, over their management port.

port       what the reconcilers need of it
calls      the signature under a call
collector  asks, now and then, and remembers what it was told
"""
