"""The gateway of a Universe: how it is reached, whom it knows, what it bears, where it keeps its logins."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from demarkus_operator.api.common import Label, Model
from demarkus_operator.api.names import Annotations, ObjectName, SecretKey, keys_rule
from demarkus_operator.api.pods import PodTemplate, Resources
from demarkus_operator.api.rules import Rule, whole
from demarkus_operator.api.status import LIST_BY_CLIENT

MAX_REPLICAS = 20

_REDIRECT = r"^https://[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[1-9][0-9]{0,4})?(/[^# ]*)?$"
_is_redirect = whole(_REDIRECT)
_LOOPBACK = r"^https://(localhost|127[.].*|\[.*)"
_BUCKET = r"^gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/[-A-Za-z0-9._]+)*$"
_is_bucket = whole(_BUCKET)


class GatewayRef(Model):
    """A Gateway of the Gateway API, and one of its listeners."""

    name: ObjectName
    """The Gateway's name."""
    namespace: Label | None = None
    """Its namespace. Default: the Universe's own. Another one has to admit routes from here."""
    section_name: ObjectName | None = None
    """The listener. Default: all that fit."""


class PublicRoute(Model):
    """What leads from the public URL to the gateway: an Ingress, or a route at a Gateway."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        keys_rule("ingress-annotations", "annotations"),
        Rule(
            name="ingress-or-gateway",
            field="gateway",
            expression="!has(self.gateway) || !(has(self.className) || has(self.tlsSecretName))",
            message="className and tlsSecretName are of an Ingress, and gateway makes an HTTPRoute instead; give "
            "one or the other",
            holds=lambda self, _: "gateway" not in self or not {"className", "tlsSecretName"} & set(self),
        ),
    )

    class_name: ObjectName | None = None
    """The IngressClass. Default: the cluster's default class."""
    tls_secret_name: ObjectName | None = None
    """The Secret with the certificate for the public URL. Default: the controller's own certificate."""
    gateway: GatewayRef | None = None
    """The Gateway at which an HTTPRoute is made, instead of an Ingress."""
    annotations: Annotations | None = None
    """Annotations of the Ingress or HTTPRoute."""


class WebClient(Model):
    """A hosted client that is known beforehand, with a secret of its own (OAuth's confidential client)."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="web-client-secret",
            expression="has(self.secretHash) != has(self.secretRef)",
            message="a web client has either secretHash (64 hex digits: the SHA-256 of its secret) or secretRef",
            holds=lambda self, _: ("secretHash" in self) != ("secretRef" in self),
        ),
        Rule(
            name="web-client-redirects",
            field="redirectURIs",
            expression=f"self.redirectURIs.all(u, u.matches(r'{_REDIRECT}') && !u.matches(r'{_LOOPBACK}'))",
            message="a web client's redirect URIs are https:// URLs without a fragment, not on loopback: "
            "https://client.example.com/callback",
            holds=lambda self, _: all(
                _is_redirect(uri) and not uri.startswith(("https://localhost", "https://127."))
                for uri in self["redirectURIs"]
            ),
        ),
    )

    client_id: Annotated[str, Field(alias="clientID", min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
    """What it calls itself."""
    name: Annotated[str, Field(min_length=1, max_length=128)]
    """What people are shown."""
    redirect_uris: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=512)]],
        Field(alias="redirectURIs", min_length=1, max_length=8),
    ]
    """Where it may send people back to, exactly."""
    secret_hash: Annotated[str, Field(max_length=64, pattern=r"^[0-9a-f]{64}$")] | None = None
    """The SHA-256 of its secret."""
    secret_ref: SecretKey | None = None
    """Where its secret is; the gateway gets only the hash of it."""


class Rate(Model):
    """How many requests."""

    per_second: Annotated[int, Field(ge=0, le=1000000)] | None = None
    """Requests in a second, on average; 0 lifts the bound."""
    burst: Annotated[int, Field(ge=1, le=1000000)] | None = None
    """Requests at once, before the average counts."""


class GatewayLimits(Model):
    """Bounds on what clients may ask of the gateway."""

    subject: Rate | None = None
    """Requests of one person."""
    address: Rate | None = None
    """Requests of one address, before anybody is signed in."""
    trusted_proxies: Annotated[int, Field(ge=0, le=10)] | None = None
    """How many proxies before the gateway write `X-Forwarded-For`; the address is what the first of them saw."""
    max_concurrent: Annotated[int, Field(ge=1, le=100000)] | None = None
    """Requests that one process works on at once."""


class KubernetesState(Model):
    """Logins as Secrets in a namespace of their own, for up to 2,000 logins."""

    namespace: Label
    """The namespace. It has to exist, with the Role `demarkus-broker-state` in it, and nobody else reads its
    Secrets."""


class BucketState(Model):
    """Logins as objects in a bucket."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="state-url",
            field="url",
            expression=f"self.url.matches(r'{_BUCKET}')",
            message="a bucket's url is gs:// and its name, and a prefix if need be: gs://acme-logins",
            holds=lambda self, _: _is_bucket(self["url"]),
        ),
    )

    url: Annotated[str, Field(min_length=8, max_length=500)]
    """`gs://name` or `gs://name/prefix`. It has to exist."""
    service_account: (
        Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[a-z][-a-z0-9]+@[-a-z0-9:.]+$")] | None
    ) = None
    """The Google service account that the pods act as (workload identity). Default: the pods' own identity."""


class DirectoryState(Model):
    """Logins as files on a volume that all replicas share."""

    claim_name: ObjectName
    """The PersistentVolumeClaim. It has to exist; several replicas need one that many nodes can mount for writing."""


class State(Model):
    """Where the gateway keeps its logins."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="one-state",
            expression="[has(self.kubernetes), has(self.gcs), has(self.directory)].filter(given, given).size() == 1",
            message="logins are kept in one of: kubernetes, gcs, directory; write for example "
            "state: {kubernetes: {namespace: acme-logins}}",
            holds=lambda self, _: len({"kubernetes", "gcs", "directory"} & set(self)) == 1,
        ),
    )

    kubernetes: KubernetesState | None = None
    """Secrets in a namespace of their own."""
    gcs: BucketState | None = None
    """A bucket of Google Cloud Storage."""
    directory: DirectoryState | None = None
    """A volume."""


class Broker(Model):
    """The gateway."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="replicas-bounds",
            field="replicas",
            expression=f"!has(self.replicas) || (self.replicas >= 1 && self.replicas <= {MAX_REPLICAS})",
            message=f"a gateway has 1 to {MAX_REPLICAS} replicas; 2 or more keep it reachable while a node is drained",
            holds=lambda self, _: 1 <= self.get("replicas", 1) <= MAX_REPLICAS,
        ),
    )

    replicas: Annotated[int, Field(json_schema_extra={"format": "int32"})] | None = None
    """How many processes share the work. Default: 2."""
    resources: Resources | None = None
    """What the container gets. Default: it requests 100m of CPU and 128Mi of memory, without limits."""
    template: PodTemplate | None = None
    """What else is said of the pods."""
    ingress: PublicRoute | None = None
    """What leads from the public URL to the gateway. Default: nothing is made; lead it to Service `<universe>-broker`,
    port 8080."""
    web_clients: Annotated[list[WebClient], Field(max_length=50, json_schema_extra=LIST_BY_CLIENT)] | None = None
    """Hosted clients that are known beforehand. Others register themselves."""
    limits: GatewayLimits | None = None
    """Bounds on what clients may ask."""
    state: State | None = None
    """Where logins are kept."""
