"""What the reconcilers need of a cluster: a handful of calls, and errors in three classes.

A reconciler never learns which client library answers, or whether a cluster answers at all: `kubernetes.py` is this
port over the API server, the local runner is this port over a folder, tests are this port over a dictionary.

Objects are plain dictionaries in the shape of the Kubernetes API. `get` and `list` return what is there with everything
the other side added (`metadata.uid`, `resourceVersion`, `managedFields`, `status`); nothing that was returned is ever
changed in place by the caller.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

from demarkus_operator.plan.objects import Manifest, Ref


class PortError(Exception):
    """A call that did not do what it was asked; the message names the call, the object and the answer.

    Raised itself only for answers that no subclass covers: a bug of ours or of the other side.
    """


class TryLater(PortError):
    """The other side can't answer now: no connection, a time limit, 401, 429, 5xx. The same call may work later.

    `delay` is what the other side asked to wait, in seconds, or None. A write that raises this may have happened.
    """

    def __init__(self, message: str, *, delay: float | None = None) -> None:
        super().__init__(message)
        self.delay = delay


class Conflict(TryLater):
    """The object is not the one that was looked at: another version, or another uid. Read again and decide again."""


class NotFound(PortError):
    """There is no such object (or, for a `list`, no such kind)."""


class AlreadyExists(PortError):
    """`create` met an object of that name."""


class Refused(PortError):
    """Somebody must change something before the same call can work."""


class Invalid(Refused):
    """The object is refused for what it says: schema, validation rule, admission (400, 422)."""


class Forbidden(Refused):
    """We may not do that here: missing rights, a quota, a namespace that is going away (403)."""


class Port(Protocol):
    """A cluster, as the reconcilers see it. Every call ends within a bounded time and may raise `PortError`."""

    async def get(self, ref: Ref) -> Manifest:
        """The object; raises `NotFound`."""

    async def list(
        self, api_version: str, kind: str, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> Sequence[Manifest]:
        """All objects of a kind, in one namespace or in all, that carry all of `labels`: for what is not many.

        Raises `NotFound` when there is no such kind.
        """

    def pages(
        self, api_version: str, kind: str, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> AsyncIterator[Sequence[Manifest]]:
        """The same a few hundred at a time, so that nobody has to hold them all."""

    async def create(self, manifest: Manifest) -> Manifest:
        """Makes the object if it is absent and returns it; raises `AlreadyExists`."""

    async def apply(self, manifest: Manifest) -> Manifest:
        """Makes what the manifest says true, creating the object if it is absent, and returns the object.

        Fields that an earlier `apply` of ours set and this manifest leaves out are removed; those of others stay.
        A `metadata.uid` in the manifest is a guard, and so is a `metadata.resourceVersion` beside it: when the object
        has another one, or is gone, `Conflict` is raised.
        """

    async def patch(self, ref: Ref, patch: Mapping[str, Any], resource_version: str) -> Manifest:
        """Merges `patch` (RFC 7396: None removes) into the object if it still has that `resourceVersion`.

        Raises `Conflict` when it has another one, `NotFound`.
        """

    async def delete(self, ref: Ref, *, uid: str | None = None) -> None:
        """Removes the object, and what it owns in the background; an absent one is fine.

        With `uid`, only the object that has it: raises `Conflict` when another one bears the name.
        """

    async def patch_status(self, ref: Ref, status: Mapping[str, Any]) -> Manifest:
        """Merges `status` (RFC 7396: None removes, lists are replaced whole) into the object's status."""
