"""A real Kubernetes control plane on loopback, for tests: see README.md beside this file.

build    makes the one binary with etcd, kube-apiserver, kube-controller-manager and kubectl
pki      the certificates of a control plane
plane    starts and stops a control plane made of that binary
"""
