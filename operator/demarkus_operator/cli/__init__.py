"""The command `demarkus`: one module a command, and what they share.

main      the group; exit statuses
options   the state folder, failures, commands as people can copy them
up        run manifests on this machine
progress  what `up` prints
down      end what runs
status    what runs
token     a World's capability token, for `mark`
crds      the CustomResourceDefinitions from the models
"""
