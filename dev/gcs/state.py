"""What the service remembers: buckets with their administration, and objects with generations and checksums.

Source: Cloud Storage JSON API, "Objects", "Buckets", "Request preconditions".
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import google_crc32c

MAX_NAME = 1024
PAGE = 1000
PATCHABLE = frozenset({"iamConfiguration", "labels", "lifecycle", "softDeletePolicy", "versioning"})
CREATABLE = PATCHABLE | {"name", "location", "storageClass"}


class Refused(Exception):
    """An answer other than success: HTTP status and a reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


def crc32c(data: bytes) -> str:
    """The checksum as the API writes it: base64 of the big-endian CRC32C."""
    return base64.b64encode(google_crc32c.value(data).to_bytes(4, "big")).decode()


@dataclass(frozen=True, slots=True)
class Object:
    """One generation of an object."""

    name: str
    data: bytes
    generation: int
    crc32c: str

    def resource(self, bucket: str) -> dict[str, Any]:
        """The object as the JSON API shows it."""
        return {
            "kind": "storage#object",
            "bucket": bucket,
            "name": self.name,
            "generation": str(self.generation),
            "metageneration": "1",
            "size": str(len(self.data)),
            "crc32c": self.crc32c,
        }


@dataclass(frozen=True, slots=True)
class Preconditions:
    """`ifGenerationMatch` and `ifGenerationNotMatch`; generation 0 stands for "there is none"."""

    match: int | None = None
    not_match: int | None = None

    def check(self, live: Object | None) -> None:
        """Raise Refused 412 unless they hold."""
        generation = live.generation if live else 0
        if self.match is not None and generation != self.match:
            raise Refused(412, "conditionNotMet: ifGenerationMatch")
        if self.not_match is not None and generation == self.not_match:
            raise Refused(412, "conditionNotMet: ifGenerationNotMatch")


@dataclass(slots=True)
class Bucket:
    """A bucket: its settings, its policy, its objects."""

    name: str
    settings: dict[str, Any]
    metageneration: int = 1
    policy: dict[str, Any] = field(default_factory=lambda: {"bindings": [], "etag": "e1"})
    objects: dict[str, Object] = field(default_factory=dict)

    def resource(self) -> dict[str, Any]:
        """The bucket as the JSON API shows it."""
        return {
            "kind": "storage#bucket",
            "id": self.name,
            "name": self.name,
            "metageneration": str(self.metageneration),
            **self.settings,
        }


class State:
    """Everything the service remembers. No locks: the server calls it from one loop, without awaiting in between."""

    def __init__(self) -> None:
        self.buckets: dict[str, Bucket] = {}
        self._generations = itertools.count(1_700_000_000_000_001)

    # Buckets

    def create_bucket(self, settings: Mapping[str, Any]) -> Bucket:
        """Raises Refused 400 for settings this service doesn't know, 409 for a taken name."""
        _only(settings, CREATABLE)
        name = settings.get("name", "")
        if not name or not all(c.islower() or c.isdigit() or c in "-_." for c in name) or not 3 <= len(name) <= 63:
            raise Refused(400, "invalid bucket name")
        if name in self.buckets:
            raise Refused(409, "you already own this bucket")
        bucket = Bucket(name, {k: v for k, v in settings.items() if k != "name"})
        self.buckets[name] = bucket
        return bucket

    def bucket(self, name: str) -> Bucket:
        """Raises Refused 404."""
        if name not in self.buckets:
            raise Refused(404, "the specified bucket does not exist")
        return self.buckets[name]

    def patch_bucket(self, name: str, change: Mapping[str, Any], metageneration: int | None) -> Bucket:
        """Merge settings; null removes. Raises Refused 400, 404, 412."""
        bucket = self.bucket(name)
        if metageneration is not None and metageneration != bucket.metageneration:
            raise Refused(412, "conditionNotMet: ifMetagenerationMatch")
        _only(change, PATCHABLE)
        bucket.settings = _merged(bucket.settings, change)
        bucket.metageneration += 1
        return bucket

    def delete_bucket(self, name: str) -> None:
        """Raises Refused 404, and 409 while there are objects."""
        if self.bucket(name).objects:
            raise Refused(409, "the bucket you tried to delete is not empty")
        del self.buckets[name]

    def set_policy(self, name: str, policy: Mapping[str, Any]) -> dict[str, Any]:
        """Replace the IAM policy; an etag that is not the current one is refused with 412."""
        bucket = self.bucket(name)
        current = bucket.policy["etag"]
        if policy.get("etag", current) != current:
            raise Refused(412, "conditionNotMet: etag")
        bucket.policy = {**policy, "etag": f"e{int(current[1:]) + 1}"}
        return bucket.policy

    # Objects

    def insert(self, bucket: str, name: str, data: bytes, *, claimed_crc32c: str | None, when: Preconditions) -> Object:
        """Store a new generation. Raises Refused 400 for a name or checksum that is wrong, 412 for a precondition."""
        objects = self.bucket(bucket).objects
        _check_name(name)
        when.check(objects.get(name))
        actual = crc32c(data)
        if claimed_crc32c is not None and claimed_crc32c != actual:
            raise Refused(400, f"provided CRC32C {claimed_crc32c} doesn't match calculated CRC32C {actual}")
        stored = Object(name, data, next(self._generations), actual)
        objects[name] = stored
        return stored

    def get(self, bucket: str, name: str, *, generation: int | None, when: Preconditions) -> Object:
        """Raises Refused 404, 412."""
        live = self.bucket(bucket).objects.get(name)
        when.check(live)
        if live is None or generation not in (None, live.generation):
            raise Refused(404, "no such object")
        return live

    def delete(self, bucket: str, name: str, *, generation: int | None, when: Preconditions) -> None:
        """Raises Refused 404, 412."""
        self.get(bucket, name, generation=generation, when=when)
        del self.bucket(bucket).objects[name]

    def page(self, bucket: str, *, prefix: str, start: str, size: int) -> tuple[list[Object], str | None]:
        """Objects from `start` on (inclusive), in UTF-8 order, and the name the next page starts at."""
        names = sorted(
            (n for n in self.bucket(bucket).objects if n.startswith(prefix) and n.encode() >= start.encode()),
            key=str.encode,
        )
        shown = names[: min(size, PAGE)]
        following = names[len(shown)] if len(names) > len(shown) else None
        return [self.buckets[bucket].objects[n] for n in shown], following


def _check_name(name: str) -> None:
    raw = name.encode("utf-8", "surrogateescape")
    if not 1 <= len(raw) <= MAX_NAME or "\r" in name or "\n" in name or name in (".", ".."):
        raise Refused(400, "invalid object name")
    if name.startswith(".well-known/acme-challenge/"):
        raise Refused(400, "reserved object name")


def _only(given: Mapping[str, Any], known: frozenset[str]) -> None:
    if unknown := sorted(set(given) - known):
        raise Refused(400, f"this stand-in does not know {', '.join(unknown)}")


def _merged(old: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(old)
    for key, value in change.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = _merged(merged[key], value)
        else:
            merged[key] = value
    return merged
