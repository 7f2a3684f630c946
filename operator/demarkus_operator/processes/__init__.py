"""Asking running worlds and gateways: where they are, and what they say.

port  what the reconcilers need of it
"""
