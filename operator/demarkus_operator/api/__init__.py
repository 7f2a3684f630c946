"""The API of the custom resources: what a World and a Universe may say, and what the operator says back.

common       the group, strict models, bounded types
rules        validation rules: CEL, predicate and message in one
quantities   quantities of bytes and of processors
durations    durations
names        names of other objects, of labels and hosts
selectors    label selectors
access       path patterns, operations, access entries
store        where a World keeps its history
retention    what of a history may go
policy       what a World asks of its documents, and which it starts with
limits       bounds on what clients may ask of a World
tokens       capability tokens of a World
trust        issuers, exchange of keys
expose       how a World is reached from outside
network      what is added to a NetworkPolicy
pods         what is said of pods
identity     who may sign in to a Universe
gateway      the gateway of a Universe
status       what every status has
world        the model of World
universe     the model of Universe
conditions   conditions and their reasons
check        everything wrong with an object, as the API server would judge it
crd          models -> CustomResourceDefinitions (the files in crds/)
reference    models -> the reference page in docs/
"""
