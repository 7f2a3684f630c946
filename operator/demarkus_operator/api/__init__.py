"""The API of the custom resources: what a World and a Universe may say, and what the operator says back.

common       the group, strict models, bounded types
rules        validation rules: CEL, predicate and message in one
quantities   quantities of bytes
access       path patterns, operations, access entries
policy       what a World asks of its documents, and which it starts with
status       what every status has
world        the model of World
universe     the model of Universe
conditions   conditions and their reasons
check        everything wrong with an object, as the API server would judge it
crd          models -> CustomResourceDefinitions (the files in crds/)
reference    models -> the reference page in docs/
"""
