"""broker.yaml: which worlds there are, who may use them, and where keys and certificates lie.

The file is written by the operator (or by the local runner, from the same plan) and read again whenever its content
changes; a file that does not hold is refused as a whole and the last good one stays in force. Field names are those
of the file, in camel case. Nothing here opens a file or a socket: `load` takes bytes and gives a value.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self
from urllib.parse import urlsplit

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from demarkus_base.settings import SettingsError
from mark_protocol.patterns import PatternError, check_pattern
from mark_protocol.times import parse_rfc3339

_DURATION = re.compile(r"([0-9]{1,6})(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class HostPort(NamedTuple):
    """A host (name or numeric address, without brackets) and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _host_port(value: object) -> HostPort:
    if isinstance(value, HostPort):
        return value
    text = value if isinstance(value, str) else ""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not (host and colon and port.isascii() and port.isdigit() and int(port) < 65536):
        raise ValueError("expected host:port, an IPv6 address in brackets")
    return HostPort(host, int(port))


def _instant(value: object) -> datetime:
    # YAML has made a time of it already unless it is quoted.
    time = parse_rfc3339(value) if isinstance(value, str) else value
    if not isinstance(time, datetime) or time.tzinfo is None:
        raise ValueError("expected an RFC 3339 time, like 2026-11-30T09:00:00Z")
    return time


def _public_url(value: str) -> str:
    parts = urlsplit(value)
    try:
        port_holds = parts.port != 0
    except ValueError:
        port_holds = False
    plain = f"{parts.scheme}://{parts.netloc}"
    if (
        not port_holds
        or not parts.hostname
        or "@" in parts.netloc
        or value.rstrip("/") != plain
        or parts.netloc != parts.netloc.lower()
    ):
        raise ValueError("expected only scheme and host in lower case, like https://mark.example.com")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname)):
        raise ValueError("has to be https; http is for loopback addresses only")
    return plain


def is_loopback(host: str) -> bool:
    """Whether a host name or numeric address means this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _issuer(value: str) -> str:
    if not _is_secure(value):
        raise ValueError("expected the provider's https URL, like https://accounts.example.com")
    return value


def _service(value: str) -> str:
    if not _is_secure(value):
        raise ValueError("expected an https address, like https://storage.example.com")
    return value.rstrip("/")


def _is_secure(value: str) -> bool:
    """Whether a URL is https, or http on loopback, without a user, a query or a fragment."""
    parts = urlsplit(value)
    secure = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    return bool(secure and parts.hostname and "@" not in parts.netloc and not parts.query and not parts.fragment)


def _duration(value: object) -> float:
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("expected a duration, like 30m or 24h")
    return float(int(match[1]) * _SECONDS[match[2]])


def _label(value: str) -> str:
    if not _LABEL.fullmatch(value):
        raise ValueError("expected a DNS label: lower-case letters, digits and hyphens, at most 63")
    return value


def _pattern(value: str) -> str:
    try:
        check_pattern(value)
    except PatternError as error:
        raise ValueError(str(error)) from None
    return value


Label = Annotated[str, AfterValidator(_label)]
Identifier = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Duration = Annotated[float, BeforeValidator(_duration)]
Instant = Annotated[datetime, BeforeValidator(_instant)]
Listen = Annotated[HostPort, BeforeValidator(_host_port)]
Operation = Literal["read", "append", "write", "archive", "publish", "prune", "review"]
Words = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]


class _Section(BaseModel):
    """A mapping of the file: camel-case names, nothing unknown, nothing changed after reading."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)


class PersonEntry(_Section):
    """Whom an entry means. Every key that is given must match; one entry that matches is enough."""

    emails: Words | None = None
    domains: Words | None = None
    groups: Words | None = None
    claims: Annotated[Mapping[str, Words], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _names_somebody(self) -> Self:
        if not (self.emails or self.domains or self.groups or self.claims):
            raise ValueError("names nobody: give at least one of emails, domains, groups, claims")
        return self


class AccessEntry(PersonEntry):
    """Whom an entry means, and where."""

    paths: Annotated[tuple[Annotated[str, AfterValidator(_pattern)], ...], Field(min_length=1)] = ("/**",)


class WriterEntry(AccessEntry):
    """An entry of `writers`: also which operations it gives; `publish` is write and archive."""

    operations: Annotated[tuple[Operation, ...], Field(min_length=1)] = ("publish",)


class Access(_Section):
    """Who may use a world. No `readers`: every admitted identity. No `writers`: nobody."""

    readers: tuple[AccessEntry, ...] = ()
    writers: tuple[WriterEntry, ...] = ()


class WorldSettings(_Section):
    """One world: where it answers, who it is, who may use it. No addresses = it answers nowhere at present."""

    name: Label
    namespace: Label
    addresses: tuple[Listen, ...] | None = None
    service: Listen | None = None
    server_name: str = ""
    history: Identifier
    incarnation: Identifier
    access: Access = Access()
    grants_not_before: Instant | None = None

    @model_validator(mode="after")
    def _has_one_address_form(self) -> Self:
        if (self.addresses is None) == (self.service is None):
            raise ValueError("give either addresses (a list of host:port) or service (host:port)")
        return self

    @property
    def tls_name(self) -> str:
        """The name that the world's certificate has to carry."""
        return self.server_name or f"{self.name}.{self.namespace}.svc"


class ListenSettings(_Section):
    """Where the broker listens: `http` for clients, `health` for probes and metrics. Port 0 = any free one."""

    http: Listen
    health: Listen


class KeySettings(_Section):
    """Where the keys lie: `broker-<kid>.pem`, `grant-<kid>.pem`, `signing.json`, `subject.key`, `cookie.key`."""

    directory: Path


class IdentitySettings(_Section):
    """The provider that signs people in, and whom of them the gateway admits; no `rules` = everybody it signs in.

    `revalidate` and `max_login` are durations such as `1h`.
    """

    issuer: Annotated[str, AfterValidator(_issuer)]
    client_id: Annotated[str, Field(alias="clientID", min_length=1)]
    client_secret_file: Path
    scopes: tuple[str, ...] = ("email", "profile", "offline_access")
    rules: tuple[PersonEntry, ...] = ()
    revalidate: Duration = 3600.0
    max_login: Duration = 86400.0


class KubernetesState(_Section):
    """Logins as Secrets in a namespace of their own."""

    namespace: Label


class BucketState(_Section):
    """Logins as objects in a bucket, `gs://name` or `gs://name/prefix`.

    `service` is the address of a private endpoint, or of a stand-in: over plain http only on loopback, and then no
    credential is sent.
    """

    url: Annotated[str, Field(pattern=r"^gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/[^?#\\\s]*)?$")]
    service: Annotated[str, AfterValidator(_service)] | None = None


class StateSettings(_Section):
    """Where logins are kept. Exactly one of them."""

    kubernetes: KubernetesState | None = None
    gcs: BucketState | None = None
    directory: Path | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if [self.kubernetes, self.gcs, self.directory].count(None) != 2:
            raise ValueError("give exactly one of kubernetes, gcs, directory")
        return self


class RateSettings(_Section):
    """Requests in a second on average (0 lifts the bound), and at once."""

    per_second: Annotated[int, Field(ge=0)] | None = None
    burst: Annotated[int, Field(ge=1)] | None = None


class LimitSettings(_Section):
    """Bounds on what one person, and one address that is not signed in, may ask; proxies that are trusted."""

    subject: RateSettings = RateSettings()
    address: RateSettings = RateSettings()
    trusted_proxies: Annotated[int, Field(ge=0, le=10)] = 0
    max_concurrent: Annotated[int, Field(ge=1)] | None = None


class WebClientSettings(_Section):
    """A hosted client that is known beforehand; its secret is known by its SHA-256 only."""

    client_id: Annotated[str, Field(alias="clientID", pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    name: Annotated[str, Field(min_length=1, max_length=128)]
    redirect_uris: Annotated[tuple[str, ...], Field(alias="redirectURIs", min_length=1)]
    secret_hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class LogSettings(_Section):
    """How much is logged."""

    level: Literal["debug", "info", "warning", "error"] = "info"


class BrokerSettings(_Section):
    """The whole file. `generation` counts changes of access; a grant is never used in another generation."""

    public_url: Annotated[str, Field(alias="publicURL"), AfterValidator(_public_url)]
    listen: ListenSettings
    keys: KeySettings
    ca_bundle: Path
    identity: IdentitySettings | None = None
    state: StateSettings | None = None
    limits: LimitSettings = LimitSettings()
    web_clients: tuple[WebClientSettings, ...] = ()
    tools: Literal["full", "lean"] = "full"
    worlds: tuple[WorldSettings, ...] = ()
    generation: Annotated[int, Field(ge=0)] = 0
    log: LogSettings = LogSettings()

    @model_validator(mode="after")
    def _sign_in_has_a_place_for_logins(self) -> Self:
        if self.identity is not None and self.state is None:
            raise ValueError("identity needs state: where logins are kept")
        return self

    @model_validator(mode="after")
    def _worlds_have_names_of_their_own(self) -> Self:
        seen: set[str] = set()
        for world in self.worlds:
            if world.name in seen:
                raise ValueError(f"two worlds are called {world.name!r}; a name is used once in a universe")
            seen.add(world.name)
        return self

    @property
    def resource(self) -> str:
        """The resource identifier of the MCP endpoint (RFC 8707), the audience of its bearers."""
        return f"{self.public_url}/mcp"


def load(text: bytes, *, source: str) -> BrokerSettings:
    """Read broker.yaml. `source` is the file's name, for messages.

    Raises SettingsError, which names every field that is wrong and what was expected there.
    """
    try:
        document = yaml.load(text, Loader=yaml.CSafeLoader)  # safe loader, the C one
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise SettingsError(f"{source}: {where}not YAML: {getattr(error, 'problem', None) or error}") from None
    if not isinstance(document, dict):
        raise SettingsError(f"{source}: expected a mapping with publicURL, listen, keys, caBundle, worlds")
    try:
        return BrokerSettings.model_validate(document)
    except ValidationError as error:
        problems = "; ".join(_describe(dict(item)) for item in error.errors(include_url=False, include_input=False))
        raise SettingsError(f"{source}: {problems}") from None


def _describe(problem: dict[str, Any]) -> str:
    """One pydantic error as `field: what is wrong`. The rejected value is left out: it may be a secret put astray."""
    field = ""
    for part in problem["loc"]:
        field += f"[{part}]" if isinstance(part, int) else f".{part}" if field else str(part)
    if problem["type"] == "extra_forbidden":
        return f"{field}: unknown field"
    if problem["type"] == "missing":
        return f"{field}: is missing"
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{field}: {message}" if field else message
