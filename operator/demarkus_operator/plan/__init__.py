"""The planner: from a World or Universe, and what was seen of it, to what should be there. Pure: no API, no clock, no
randomness; the same input gives the same plan, byte for byte.

objects      references, objects to generate, change, apply and remove: what a plan is made of
reports      what running processes say of themselves
rotation     exchanging keys, authorities and tokens without a refusal: one state machine. It is used by
             rotation_keys, rotation_authority, rotation_token; rotation_universe puts these together
certificate  when a World gets another certificate
sync         pods that have not loaded what lies ready
recipes      what generated Secrets are to contain
site         where the operator runs: namespace, version, images
names        names of children
labels       labels and annotations, and whether an object is ours
owner        the metadata of children, and whose name an object bears
refusal      why a plan changes nothing
secret_data  reading Secrets and the keys in them
membership   whether a Universe admits a World
record       the Universe's record: which name belongs to which World
witness      what was witnessed of a history, and what new testimony says against it
inquiry      what a World is asked, so that it proves its history
loss         a known history whose store is not there: what is expected, what its owner accepts
home         what surrounds a World: authority, grant keys, whether it may serve
children/    one module a child object
world        plan of a World
universe     plan of a Universe
"""
