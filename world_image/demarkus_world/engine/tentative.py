"""The tip that the next write would follow: the view, and on top of it what is decided but not yet durable.

What is decided becomes part of the view in the order it was decided; when another writer came first it is forgotten
and decided anew.
"""

from collections import deque

from demarkus_world.engine.preconditions import Content, Decision, Document
from demarkus_world.view.local import LocalView


class Tentative:
    """See `Tip`."""

    def __init__(self, view: LocalView) -> None:
        self._view = view
        self._decided: dict[str, deque[Decision]] = {}

    def document(self, path: str) -> Document | None:
        """The document as the newest decision, or the view, leaves it."""
        decided = self._decided.get(path)
        if decided:
            return decided[-1].after
        head = self._view.head(path)
        if head is None:
            return None
        return Document(
            version=head.record.version,
            first=self._view.first_retained(path),
            stored=head.record.etag,
            body=head.record.body_hash,
            archived=head.archived,
            metadata=self._view.metadata(path),
        )

    def is_directory(self, path: str) -> bool:
        """Whether a document, durable or decided, is below."""
        below = path.rstrip("/") + "/"
        return self._view.is_directory(path) or any(decided.startswith(below) for decided in self._decided)

    def stored(self, path: str, version: int) -> str:
        """The hash of a version's bytes."""
        content = self.content(path, version)
        if content is not None:
            return content.stored
        record = self._view.version(path, version)
        if record is None:
            raise KeyError(f"version {version} of {path} is not retained")
        return record.etag

    def content(self, path: str, version: int) -> Content | None:
        """A version that is decided and not durable yet."""
        for decision in self._decided.get(path, ()):
            if decision.content is not None and decision.version == version:
                return decision.content
        return None

    def add(self, path: str, decision: Decision) -> None:
        """Put a decision on top."""
        if decision.changes:
            self._decided.setdefault(path, deque()).append(decision)

    def became_durable(self, path: str, decision: Decision) -> None:
        """Take the oldest decision on a path away, now that the view has it."""
        if decision.changes:
            decided = self._decided[path]
            decided.popleft()
            if not decided:
                del self._decided[path]

    def forget(self) -> None:
        """Go back to the view alone."""
        self._decided.clear()
