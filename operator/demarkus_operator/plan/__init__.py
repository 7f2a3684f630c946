"""The planner: from a World or Universe, and what was seen of it, to what should be there. Pure: no API, no clock, no
randomness; the same input gives the same plan, byte for byte.

objects      references, objects to generate, change, apply and remove: what a plan is made of
reports      what running processes say of themselves
rotation     exchanging keys, authorities and tokens without a refusal: one state machine. It is used by
             rotation_keys, rotation_authority, rotation_token; rotation_universe and rotation_world put these together
certificate  when a World gets another certificate
issuance     what an issuer of cert-manager is asked, and what came of it; issuance_world and issuance_universe say for
             whom
sync         pods that have not loaded what lies ready
recipes      what generated Secrets are to contain
site         where the operator runs: namespace, version, images
names        names of children
labels       labels and annotations, and whether an object is ours
owner        the metadata of children, and whose name an object bears
validity     whether the spec of a World holds
defaults     what holds for a World that does not say otherwise
images       which image a pod gets
references   objects that a spec names and somebody else makes
seeds        the texts of a World's seeds
size         whether a configuration fits into its object
workload     what a StatefulSet or Deployment tells of its pods
pause        what goes on while a World or Universe is paused
keeping      what becomes of generated Secrets when their owner is deleted
refusal      why a plan changes nothing
secret_data  reading Secrets and the keys in them
membership   whether a Universe admits a World
record       the Universe's record: which name belongs to which World
witness      what was witnessed of a history, and what new testimony says against it
inquiry      what a World is asked, so that it proves its history
loss         a known history whose store is not there: what is expected, what its owner accepts
rollout      how a new version reaches Worlds and gateway, one after the other
bucket       how a World's bucket is, and what it takes until it may be used
bucket_facts  what was seen of a bucket, and what can be done to one
reach        whether a World reaches its store and has room there
growth       a volume that is to be larger
versions     whose version is which, as the Universe's record says it
home         what surrounds a World: authority, grant keys, whether it may serve
children/    one module a child object
world_conditions  the conditions of a World that is not refused
world        plan of a World
routes       the Worlds that a gateway leads to
gateway      the configuration of a gateway, as far as it can be had
universe     plan of a Universe
"""
