"""Buckets of Google Cloud Storage, as the reconcilers of Worlds need them.

port    what the reconcilers need of it
google  the same over the JSON API
"""
