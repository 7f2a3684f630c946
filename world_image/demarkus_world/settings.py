"""`world.yaml`: the model of a world's configuration, and its reading from bytes.

Only values are looked at here. Files named in the configuration (tokens, key set, certificate) are read by `sources`,
which also watches them. Field names are those of the file; a field that is not listed here is an error.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlsplit

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from demarkus_base import settings as base
from demarkus_world.engine import rules as engine_rules
from demarkus_world.engine.model import Expected
from demarkus_world.policy import AXIS, KEY, POLICY_PATH, VALUE, PersonalData, Policy, Strictness
from mark_protocol.paths import clean, has_parent_segment, unstorable
from mark_protocol.patterns import PatternError, check_pattern
from mark_protocol.times import parse_rfc3339

AGENT_MANIFEST = "/.well-known/agent-manifest.md"
"""What a site says of itself to agents; readable by everybody in every mode (Mark protocol 4.9)."""

MAX_BYTES = 1 << 20
"""Larger configuration files are refused unread (a ConfigMap can't hold more either)."""

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class SettingsError(base.SettingsError):
    """The configuration can't be used; `problems` holds one sentence for each thing to change."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class ReadMode(StrEnum):
    """Who may read. `public`: all that no read token covers; the other two: only with a credential."""

    PUBLIC = "public"
    UNIVERSE = "universe"
    SCOPED = "scoped"


class HistoryMode(StrEnum):
    """`compatible` behaves as upstream servers do; `protected` guards the history and tells more about it."""

    PROTECTED = "protected"
    COMPATIBLE = "compatible"


class HostPort(NamedTuple):
    """Where to listen; port 0 lets the system choose."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _host_port(value: Any) -> HostPort:
    if not isinstance(value, str):
        raise ValueError('expected "host:port"')
    host, colon, port = value.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f'"{value}": an IPv6 address stands in brackets: "[{host}]:{port}"')
    if not host or not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f'expected "host:port", got "{value}"')
    return HostPort(host, int(port))


def _duration(value: Any) -> float:
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f'expected a duration such as "10s" or "500ms", got {value!r}')
    return float(match[1]) * _SECONDS[match[2]]


def _pattern(value: str) -> str:
    try:
        check_pattern(value)
    except PatternError as error:
        raise ValueError(f'"{value}": {error}') from None
    if not value.startswith("/"):
        raise ValueError(f'"{value}": a pattern begins with /, as in "/contracts/**"')
    return value


def _service(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or "@" in parts.netloc:
        raise ValueError(f'expected an address such as "https://storage.example.com", got "{value}"')
    if parts.query or parts.fragment:
        raise ValueError(f'"{value}": an address ends after host and port')
    if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        raise ValueError(f'"{value}": plain http only on loopback; give an https address')
    return value.rstrip("/")


def _time(value: Any) -> datetime:
    time = parse_rfc3339(value) if isinstance(value, str) else None
    if time is None:
        raise ValueError(f'expected an RFC 3339 time such as "2026-01-01T00:00:00Z", got {value!r}')
    return time


def _off(value: Any) -> Any:
    # YAML reads an unquoted `off` as a truth value.
    return "off" if value is False else value


def _document(value: str) -> str:
    rule = unstorable(value)
    if rule is None and (not value.endswith(".md") or has_parent_segment(value) or clean(value) != value):
        rule = "a document's path is absolute, without empty or dot segments, and ends in .md"
    if rule is not None:
        raise ValueError(f'"{value}": {rule}')
    return value


Id = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
Endpoint = Annotated[HostPort, BeforeValidator(_host_port)]
Seconds = Annotated[float, BeforeValidator(_duration), Field(gt=0, le=600)]
Span = Annotated[float, BeforeValidator(_duration), Field(ge=0, le=100 * 366 * 86400)]
Pattern = Annotated[str, AfterValidator(_pattern)]
Time = Annotated[datetime, BeforeValidator(_time)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)


class Identity(_Section):
    """Ids of 32 hex digits: of the history (never changes) and of this incarnation of it."""

    history: Id
    incarnation: Id
    key_file: Path | None = None


class Memory(_Section):
    """A store that is gone when the process ends; it takes no settings."""


class Bucket(_Section):
    """A bucket, `gs://name` or `gs://name/prefix`.

    `service` is the address of a private endpoint, or of a stand-in: over plain http only on loopback, and then no
    credential is sent.
    """

    url: Annotated[str, StringConstraints(pattern=r"^gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/[^?#\\\s]*)?$")]
    service: Annotated[str, AfterValidator(_service)] | None = None

    @property
    def anonymous(self) -> bool:
        """Whether the service is reached without a credential."""
        return self.service is not None and self.service.startswith("http:")


class Store(_Section):
    """Where the world is kept: below `<directory>/world/`, in a bucket, or in memory. Exactly one of them."""

    directory: Path | None = None
    gcs: Bucket | None = None
    memory: Memory | None = None

    @model_validator(mode="after")
    def _one(self) -> Store:
        if [self.directory, self.gcs, self.memory].count(None) != 2:
            raise ValueError("give exactly one of directory, gcs, memory")
        return self


class View(_Section):
    """The folder for what a process keeps of the store to answer from, made anew when it is lost.

    Each process needs its own. Unset: `view/` beside a store in a directory, else a temporary folder.
    """

    directory: Path | None = None


class Rate(_Section):
    """Requests that one credential (without one: one address) may make; `perSecond: 0` lifts the limit."""

    per_second: float = Field(default=50, ge=0, le=1_000_000)
    burst: int = Field(default=100, ge=1, le=1_000_000)


class RequestLimits(_Section):
    """Streams that a connection may have open at once, the time a request may take, and its rate; the world's size.

    The timeout bounds three things: the arrival of a request (as configured at the start), its wait, and its work.
    Half of the streams of a connection may be watches, and `max_watches` all over the world. `max_documents` counts
    archived ones too, `max_bytes` all retained versions as they are stored. A connection without traffic ends after
    `idle_timeout`.
    """

    max_streams: int = Field(default=10, ge=1, le=10_000)
    max_watches: int = Field(default=1024, ge=1, le=100_000)
    request_timeout: Seconds = 10.0
    idle_timeout: Seconds = 30.0
    rate: Rate = Rate()
    max_documents: int | None = Field(default=None, ge=1)
    max_bytes: int | None = Field(default=None, ge=1)


class RetentionKey(StrEnum):
    """What becomes of a key `retention` whose sender may not prune: the write is refused, or the key is only stored."""

    REFUSE = "refuse"
    IGNORE = "ignore"


class Hold(_Section):
    """Nothing is pruned at paths that match one of the patterns, and the reason is told to whoever tries."""

    paths: tuple[Pattern, ...] = Field(min_length=1, max_length=100)
    reason: Annotated[str, StringConstraints(min_length=1, max_length=500)]


class Retention(_Section):
    """What may not be pruned: floors and holds. What was pruned is deleted from the store after `grace`."""

    key: RetentionKey = RetentionKey.REFUSE
    keep_versions: int = Field(default=0, ge=0)
    keep_for: Span = 0.0
    grace: Span = 86400.0
    holds: tuple[Hold, ...] = Field(default=(), max_length=1000)


class Expect(_Section):
    """The store that has to be there: of this history, with at least so many entries. It is never created."""

    history: Id
    min_size: int = Field(default=0, ge=0)


class PolicySettings(_Section):
    """The write policy (Mark protocol 6.6); where it is given, the policy document follows it and nobody writes that.

    `allowedValues` maps a metadata key, or the axis of a tag `axis:value`, to what it may say.
    """

    strictness: Strictness = Strictness.WARN
    require_tags: tuple[Annotated[str, StringConstraints(pattern=rf"^{AXIS}$", max_length=100)], ...] = Field(
        default=(), max_length=50
    )
    require_fields: tuple[Annotated[str, StringConstraints(pattern=rf"^{KEY}$", max_length=100)], ...] = Field(
        default=(), max_length=50
    )
    allowed_values: dict[
        Annotated[str, StringConstraints(pattern=rf"^{AXIS}$", max_length=100)],
        Annotated[
            tuple[Annotated[str, StringConstraints(pattern=rf"^{VALUE}$", max_length=100)], ...],
            Field(min_length=1, max_length=100),
        ],
    ] = Field(default={}, max_length=50)
    personal_data: Annotated[PersonalData, BeforeValidator(_off)] = PersonalData.OFF

    @property
    def policy(self) -> Policy:
        """The policy that the engine judges by."""
        return Policy(**dict(self))


class Seed(_Section):
    """A document that is made when the world starts and there is none; afterwards it is like any other.

    Only the agent manifest has a text of its own to fall back on.
    """

    path: Annotated[str, AfterValidator(_document)]
    text: Annotated[str, StringConstraints(min_length=1, max_length=1 << 20)] | None = None


class Listen(_Section):
    """UDP for Mark, TCP for probes and metrics, TCP with TLS for the operator (only with `managementKeys`)."""

    mark: Endpoint = HostPort("0.0.0.0", 6309)
    health: Endpoint = HostPort("0.0.0.0", 8081)
    management: Endpoint = HostPort("0.0.0.0", 8443)


class TLS(_Section):
    """PEM files: the certificate chain, leaf first, and its private key."""

    certificate: Path
    key: Path


class Log(_Section):
    """How much is logged, and as what."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "text"] = "json"


class Settings(_Section):
    """One world. Paths are opened as given; times are RFC 3339; durations are texts such as `10s`."""

    name: Name
    identity: Identity
    store: Store
    view: View = View()
    tls: TLS
    reads: ReadMode = ReadMode.UNIVERSE
    read_only: bool = False
    history: HistoryMode = HistoryMode.PROTECTED
    retention: Retention = Retention()
    expect: Expect | None = None
    policy: PolicySettings | None = None
    seed: tuple[Seed, ...] = Field(default=(), max_length=100)
    limits: RequestLimits = RequestLimits()
    listen: Listen = Listen()
    tokens: tuple[Path, ...] = Field(default=(), max_length=16)
    key_set: Path | None = None
    management_keys: Path | None = None
    grants_not_before: Time | None = None
    log: Log = Log()

    @model_validator(mode="after")
    def _signed(self) -> Settings:
        if self.management_keys is not None and self.identity.key_file is None:
            raise ValueError("managementKeys needs identity.keyFile: without it the world can't sign what it answers")
        return self

    @model_validator(mode="after")
    def _seeds(self) -> Settings:
        for number, seed in enumerate(self.seed):
            if seed.path == POLICY_PATH and self.policy is not None:
                raise ValueError(f"seed.{number}: {POLICY_PATH} follows the field policy; remove one of the two")
            if seed.text is None and seed.path != AGENT_MANIFEST:
                raise ValueError(f"seed.{number}.text: required; only {AGENT_MANIFEST} has a default")
        return self

    @property
    def expected(self) -> Expected | None:
        """The store that has to be there."""
        return None if self.expect is None else Expected(self.expect.history, self.expect.min_size)

    @property
    def rules(self) -> engine_rules.Rules:
        """What every commit is held to."""
        retention = self.retention
        return engine_rules.Rules(
            retention=engine_rules.Retention(
                keep_versions=retention.keep_versions,
                keep_for=int(retention.keep_for * 1000),
                holds=[engine_rules.Hold(paths=hold.paths, reason=hold.reason) for hold in retention.holds],
            ),
            quota=engine_rules.Quota(max_documents=self.limits.max_documents, max_bytes=self.limits.max_bytes),
            policy=None if self.policy is None else self.policy.policy,
        )

    @property
    def grants_not_before_seconds(self) -> int | None:
        """Grants issued before this time (seconds since 1970) are void."""
        return None if self.grants_not_before is None else int(self.grants_not_before.timestamp())


LIVE = frozenset({"reads", "read_only", "limits", "retention", "expect", "policy", "seed", "grants_not_before", "log"})
"""Fields that a running world takes over when its configuration changes, but for `AT_START`."""

AT_START: Mapping[str, tuple[str, ...]] = {"limits": ("max_streams", "idle_timeout"), "log": ("format",)}
"""Of these fields, what is taken at the start."""


def changes_needing_restart(old: Settings, new: Settings) -> tuple[str, ...]:
    """The fields, named as in the file, that differ and that a running world can't take over."""
    changed = [to_camel(n) for n in Settings.model_fields if n not in LIVE and getattr(old, n) != getattr(new, n)]
    for section, names in AT_START.items():
        before, after = getattr(old, section), getattr(new, section)
        changed += [f"{section}.{to_camel(n)}" for n in names if getattr(before, n) != getattr(after, n)]
    return tuple(changed)


def parse_settings(data: bytes, *, source: str) -> Settings:
    """Reads `world.yaml` from its bytes; `source` is the file's name in messages.

    Raises SettingsError with one sentence for each problem, which names the field.
    """
    if len(data) > MAX_BYTES:
        raise SettingsError([f"{source}: larger than {MAX_BYTES} bytes"])
    try:
        document = yaml.load(data, Loader=_Loader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError([f"{source}: {_yaml_problem(error)}"]) from None
    if not isinstance(document, dict):
        raise SettingsError([f"{source}: expected a mapping of fields such as name, identity, store"])
    try:
        return Settings.model_validate(document)
    except ValidationError as error:
        raise SettingsError(f"{source}: {_problem(entry)}" for entry in error.errors()) from None


def _problem(entry: Any) -> str:
    field = ".".join(str(part) for part in entry["loc"])
    match entry["type"]:
        case "extra_forbidden":
            return f"{field}: unknown field"
        case "missing":
            return f"{field}: required field is missing"
        case "value_error":
            return f"{field}: {entry['ctx']['error']}"
        case "string_pattern_mismatch":
            return f"{field}: {entry['input']!r} does not match {entry['ctx']['pattern']}"
        case _:
            return f"{field}: {entry['msg']}, got {entry['input']!r}"


def _yaml_problem(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    place = f"line {mark.line + 1}: " if mark is not None else ""
    return place + str(getattr(error, "problem", None) or "not valid YAML")


class _Loader(yaml.SafeLoader):
    """Safe YAML in which times stay text and a field given twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="a field name has to be plain text", problem_mark=key.start_mark)
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"{key.value}: given twice", problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
