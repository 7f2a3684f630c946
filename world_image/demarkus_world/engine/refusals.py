"""Why a write or a read did not happen.

`WriteRefused` is about the request: whoever sent it must change something. The others are about the store:
`Unavailable` may be sent again (nothing was done), `OutcomeUnknown` must be looked at first, `StoreFull`,
`StoreDamaged`, `StoreLost`, `StoreUnfinished` and `StoreForeign` are for whoever runs the world.
"""


class EngineError(Exception):
    """Base of everything the engine raises on purpose."""


class WriteRefused(EngineError):
    """A precondition does not hold; the store is as it was."""


class VersionConflict(WriteRefused):
    """The document's newest version is `current` (0 = there is none), the write expected `expected`."""

    def __init__(self, *, expected: int, current: int) -> None:
        super().__init__(f"expected version {expected}, the newest is {current}")
        self.expected = expected
        self.current = current


class DocumentArchived(WriteRefused):
    """Content can't be written to an archived document."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is archived; unarchive it first")
        self.path = path


class DocumentMissing(WriteRefused):
    """The operation needs a document and there is none."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} does not exist")
        self.path = path


class PathCollision(WriteRefused):
    """A document can't be where a directory is, nor below another document. `kind` says which."""

    def __init__(self, path: str, *, kind: str) -> None:
        where = "a directory exists at this path" if kind == "directory" else "a document exists at an ancestor"
        super().__init__(f"cannot publish {path}: {where}")
        self.path = path
        self.kind = kind


class ContentTooLarge(WriteRefused):
    """The body or the stored version is over its limit."""


class MetadataRefused(WriteRefused):
    """The metadata that would be stored breaks a rule; `message` is the wire's text."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class VersionRefused(WriteRefused):
    """Bytes brought from elsewhere are not the version they should be; `fault` says why."""

    def __init__(self, path: str, number: int, fault: str) -> None:
        super().__init__(f"{path} version {number}: {fault}")
        self.path = path
        self.number = number
        self.fault = fault


class PruneForbidden(WriteRefused):
    """A floor or a hold keeps versions that would be taken away; `reason` says which."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"retention: {reason}")
        self.reason = reason


class QuotaExceeded(WriteRefused):
    """The world may not grow; `limit` is the limit's name in world.yaml."""

    def __init__(self, limit: str) -> None:
        super().__init__(f"quota exceeded: {limit}")
        self.limit = limit


class ContentRefused(WriteRefused):
    """The text holds what may not be kept; `message` is the wire's text and names line and kind, never the value."""

    def __init__(self, message: str) -> None:
        super().__init__(message.rstrip())
        self.message = message


class PolicyRefused(WriteRefused):
    """The world's policy refuses the write; with `ask` somebody else may let it through. `message` is the wire's."""

    def __init__(self, message: str, *, ask: bool) -> None:
        super().__init__(message.rstrip())
        self.message = message
        self.ask = ask


class PolicyInvalid(WriteRefused):
    """A policy document that is no policy: the one that would be written, or the one that is there."""


class PolicyRequired(WriteRefused):
    """The policy in force can't be archived while it refuses writes."""


class PolicyOwned(WriteRefused):
    """The policy document follows the configuration; nobody else writes it."""


class ProposalsFull(WriteRefused):
    """As many proposals are open as there may be."""


class ProposalClosed(WriteRefused):
    """The proposal has been decided, or is too old to be."""


class PathUnstorable(WriteRefused):
    """The path breaks the storability rule named by `rule`."""

    def __init__(self, path: str, *, rule: str) -> None:
        super().__init__(f"{path!r} can't be stored: {rule}")
        self.path = path
        self.rule = rule


class Unavailable(EngineError):
    """Nothing was done and the same request may be sent again later."""


class OutcomeUnknown(EngineError):
    """The write may or may not have happened; `operation` is the id it carries in the log if it did."""

    def __init__(self, operation: str) -> None:
        super().__init__(f"outcome unknown, operation {operation}: read the document before sending this again")
        self.operation = operation


class StoreFull(EngineError):
    """No space left; nothing was written."""


class StoreDamaged(EngineError):
    """An object of the store is missing or not what the log says; the message names object and defect."""


class StoreLost(EngineError):
    """The store that has to be there is not, or lacks entries that are known to have been there; nothing was made."""


class ViewFailed(StoreDamaged):
    """What this process keeps of the log can't be written; the store is fine, the process must start anew."""


class StoreUnfinished(EngineError):
    """The store is being restored, or its restore broke off; nothing is served until it is finished."""


class RestoreRefused(EngineError):
    """What a restore is asked for can't be; whoever asked must change something. The target is as it was."""


class StoreForeign(EngineError):
    """The store is not the one this world is configured for; it was not touched."""


class NoKey(EngineError):
    """The world has no key, so it can't sign what it says of its history."""
