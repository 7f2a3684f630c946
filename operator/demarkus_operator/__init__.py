"""The operator: Worlds and Universes as custom resources, made true in a cluster or on one machine.

A pure centre decides, thin edges act; whatever stands higher knows nothing of what stands lower.

    api/         what a World and a Universe may say: models, rules, CRDs, conditions
    plan/        from an object and what was seen to what should be there; pure
    material.py  random data of generated Secrets: keys, certificates, tokens, identities
    cluster/     the port to the Kubernetes API
    processes/   asking running worlds and gateways
    witness/     asking Worlds for proof of their history
    buckets/     making, looking after and emptying buckets
    reconcile/   the loop: queue, read, plan, carry out, status
    local/       the same plan on this machine: a folder for the API, processes for pods
    rehearsal/   what the reconcilers would write, without a write
    cli/         the command `demarkus`
    main.py      the process in a cluster: watches and probes
"""
