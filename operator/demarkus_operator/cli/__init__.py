"""The command `demarkus`: one module a command, and what they share.

main            the group; exit statuses; `kubectl demarkus`
options         the state folder, failures, tables, commands as people can copy them
files           the option for manifests
cluster         the options of a cluster, and what its operator is like
source          objects of a state folder or a cluster, one by one
up              run manifests on this machine
progress        what `up` prints
down            end what runs
status          what runs on this machine
cluster_status  what runs in a cluster
token           a World's capability token, for `mark`
verify          what was witnessed of a World's history
render          every object that a cluster would get
plan            what a cluster's operator would write
crds            the CustomResourceDefinitions from the models
"""
