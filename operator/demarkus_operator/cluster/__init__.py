"""The edge to a cluster.

port        the few calls the reconcilers need, and their errors in three classes
"""
