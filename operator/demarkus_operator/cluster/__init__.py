"""The edge to a cluster.

port        the few calls the reconcilers need, and their errors in three classes
apply       whether an object already is what a manifest says
kinds       the kinds the operator touches, and their paths
rbac        the rights it needs, as manifests
access      how to reach the API server, and as whom
kubernetes  the port over the Kubernetes API
watch       hearing of changes, by kopf
pulse       whether the watches live
"""
