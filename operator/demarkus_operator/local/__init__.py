"""A universe on one machine: the same plan, a folder in place of the API server, processes in place of pods.

state      the state folder: its names, its lock, durable files
objects    the port of `cluster` over a dictionary, with a hook for whoever keeps it
store      the same over files
manifests  the YAML a person wrote, with its lines
declared   what is written there, judged as a whole and brought into the store
ports      loopback ports, chosen once
configs    the few words of a configuration that differ on loopback
probe      the question whether a process is ready
processes  one child: start, lifeline, restart with backoff, end
pods       StatefulSets and Deployments as processes with their files
bearer     the credential of the person at this machine
report     what there is, as `up` shows and `status` reads it
runner     the parts put together, until somebody says stop
detached   an `up` in the background: started, found, ended

Nothing here imports a world or a gateway: they are started as commands, with the files a pod gets.
"""
