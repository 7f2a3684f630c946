"""Names of everything a World and a Universe consist of."""

from __future__ import annotations

from dataclasses import dataclass

from demarkus_operator.api.common import API_VERSION
from demarkus_operator.plan.objects import Ref


@dataclass(frozen=True, slots=True)
class WorldNames:
    """The children of a World."""

    namespace: str
    name: str

    @property
    def identity(self) -> Ref:
        """Secret: history, incarnation, world.key."""
        return self._ref("v1", "Secret", "identity")

    @property
    def certificate(self) -> Ref:
        """Secret: tls.crt, tls.key, ca.crt."""
        return self._ref("v1", "Secret", "tls")

    @property
    def issued_certificate(self) -> Ref:
        """Certificate of cert-manager, where an issuer is asked."""
        return self._ref("cert-manager.io/v1", "Certificate", "tls")

    @property
    def issued(self) -> Ref:
        """Secret that cert-manager writes: tls.crt, tls.key, ca.crt."""
        return self._ref("v1", "Secret", "tls-issued")

    @property
    def tokens(self) -> Ref:
        """Secret: tokens.toml, hashes only."""
        return self._ref("v1", "Secret", "tokens")

    def token(self, name: str) -> Ref:
        """Secret: the text of one token."""
        return self._ref("v1", "Secret", f"token-{name}")

    @property
    def config(self) -> Ref:
        """ConfigMap: world.yaml, keys.json."""
        return self._ref("v1", "ConfigMap", "world-config")

    @property
    def service(self) -> Ref:
        """Service for native clients."""
        return Ref("v1", "Service", self.namespace, self.name)

    @property
    def pods_service(self) -> Ref:
        """Headless Service: the addresses of the pods."""
        return self._ref("v1", "Service", "pods")

    @property
    def service_account(self) -> Ref:
        """ServiceAccount of the pods."""
        return self._ref("v1", "ServiceAccount", "world")

    @property
    def network_policy(self) -> Ref:
        """NetworkPolicy of the pods."""
        return self._ref("networking.k8s.io/v1", "NetworkPolicy", "world")

    @property
    def stateful_set(self) -> Ref:
        """StatefulSet."""
        return self._ref("apps/v1", "StatefulSet", "world")

    @property
    def disruption_budget(self) -> Ref:
        """PodDisruptionBudget of the pods, where there are several."""
        return self._ref("policy/v1", "PodDisruptionBudget", "world")

    @property
    def claim(self) -> Ref:
        """PersistentVolumeClaim of the store."""
        return self._ref("v1", "PersistentVolumeClaim", "data")

    def authority(self, operator_namespace: str) -> Ref:
        """Secret, in the operator's namespace: the certificate authority of a World without a Universe.

        It begins with `world-`, so that it never meets the one of a Universe of the same name.
        """
        return Ref("v1", "Secret", operator_namespace, f"world-ca-{self.namespace}-{self.name}")

    def _ref(self, api_version: str, kind: str, suffix: str) -> Ref:
        return Ref(api_version, kind, self.namespace, f"{self.name}-{suffix}")


@dataclass(frozen=True, slots=True)
class UniverseNames:
    """The children of a Universe."""

    namespace: str
    name: str

    @property
    def universe(self) -> Ref:
        """The Universe itself."""
        return Ref(API_VERSION, "Universe", self.namespace, self.name)

    def authority(self, operator_namespace: str) -> Ref:
        """Secret, in the operator's namespace: the certificate authority."""
        return Ref("v1", "Secret", operator_namespace, f"ca-{self.namespace}-{self.name}")

    @property
    def keys(self) -> Ref:
        """Secret: keys that sign bearers and grants, and keys for subjects and cookies."""
        return self._ref("v1", "Secret", "broker-keys")

    @property
    def record(self) -> Ref:
        """ConfigMap: whose the names are. It outlives the Universe."""
        return self._ref("v1", "ConfigMap", "record")

    @property
    def config(self) -> Ref:
        """ConfigMap: broker.yaml, ca.crt."""
        return self._ref("v1", "ConfigMap", "broker-config")

    @property
    def deployment(self) -> Ref:
        """Deployment of the gateway."""
        return self._ref("apps/v1", "Deployment", "broker")

    @property
    def service(self) -> Ref:
        """Service of the gateway."""
        return self._ref("v1", "Service", "broker")

    @property
    def service_account(self) -> Ref:
        """ServiceAccount of the gateway's pods."""
        return self._ref("v1", "ServiceAccount", "broker")

    @property
    def network_policy(self) -> Ref:
        """NetworkPolicy of the gateway's pods."""
        return self._ref("networking.k8s.io/v1", "NetworkPolicy", "broker")

    @property
    def disruption_budget(self) -> Ref:
        """PodDisruptionBudget of the gateway's pods."""
        return self._ref("policy/v1", "PodDisruptionBudget", "broker")

    @property
    def ingress(self) -> Ref:
        """Ingress from the public URL to the gateway."""
        return self._ref("networking.k8s.io/v1", "Ingress", "broker")

    @property
    def http_route(self) -> Ref:
        """HTTPRoute from the public URL to the gateway, where a Gateway leads there."""
        return self._ref("gateway.networking.k8s.io/v1", "HTTPRoute", "broker")

    @property
    def issuer_certificate(self) -> Ref:
        """Certificate of cert-manager by which the issuer's authority gets known."""
        return self._ref("cert-manager.io/v1", "Certificate", "issuer")

    @property
    def issuer(self) -> Ref:
        """Secret that cert-manager writes for it."""
        return self._ref("v1", "Secret", "issuer")

    def _ref(self, api_version: str, kind: str, suffix: str) -> Ref:
        return Ref(api_version, kind, self.namespace, f"{self.name}-{suffix}")


def operator_key(operator_namespace: str) -> Ref:
    """Secret, in the operator's namespace: what the operator signs its calls to worlds with."""
    return Ref("v1", "Secret", operator_namespace, "demarkus-operator-key")


def witness_record(operator_namespace: str, history: str) -> Ref:
    """ConfigMap, in the operator's namespace: what was witnessed of a history. It outlives everything."""
    return Ref("v1", "ConfigMap", operator_namespace, f"witness-{history}")


def world_server_name(namespace: str, name: str) -> str:
    """The name in a World's certificate that its gateway and its clients ask for."""
    return f"{name}.{namespace}.svc"
