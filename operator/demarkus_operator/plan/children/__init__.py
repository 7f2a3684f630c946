"""The objects a World and a Universe consist of, one module each. A builder takes the owner and returns the manifest.

Fields are spelled out, in the spelling of the API server, so that what is read back is a superset of what was said.

Of a World:
world_secrets         identity, certificate, tokens: the Secrets
world_config          ConfigMap: world.yaml, keys.json, management.json
world_claim           PersistentVolumeClaim
world_witness         ConfigMap: what was witnessed of the history
world_services        the Service for clients and the headless one
world_network_policy  who reaches the pods, whom they reach
world_stateful_set    StatefulSet

Of a Universe:
broker_secrets         certificate authority, keys: the Secrets
broker_record          ConfigMap: the record
broker_config          ConfigMap: broker.yaml, ca.crt
broker_service         Service
broker_network_policy  who reaches the pods, whom they reach
broker_deployment      Deployment
broker_route           Ingress or HTTPRoute

Of both:
issued_certificate     Certificate of cert-manager
operator_key           Secret: what the operator signs its calls with
service_account        ServiceAccount without rights
disruption_budget      PodDisruptionBudget, where there are several pods
pods                   security, probes, mounts
containers             resources of containers
peers                  peers of network policies
yaml_text              configuration as YAML, and hashes of it
"""
