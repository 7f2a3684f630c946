"""The tip that the next write would follow: the view, and on top of it what is decided but not yet durable.

What is decided becomes part of the view in the order it was decided; when another writer came first it is forgotten
and decided anew.
"""

from collections import deque

from demarkus_world.engine.decisions import Content, Decision, Document, Retained
from demarkus_world.policy import PROPOSALS
from demarkus_world.view.local import LocalView


class Tentative:
    """See `Tip`."""

    def __init__(self, view: LocalView) -> None:
        self._view = view
        self._decided: dict[str, deque[Decision]] = {}
        self._new_documents = 0
        self._growth = 0

    @property
    def documents(self) -> int:
        """How many documents there are, archived and decided ones included."""
        return self._view.documents + self._new_documents

    @property
    def stored_bytes(self) -> int:
        """The size of all versions that are, or will be, retained."""
        return self._view.stored_bytes + self._growth

    @property
    def open_proposals(self) -> int:
        """How many proposals wait for a decision, counting what is decided and not durable yet."""
        count = self._view.live_below(PROPOSALS)
        for path, decided in self._decided.items():
            if path.startswith(f"{PROPOSALS}/"):
                head, after = self._view.head(path), decided[-1].after
                count += int(after is not None and not after.archived) - int(head is not None and not head.archived)
        return count

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

    def retained(self, path: str, version: int) -> Retained:
        """A version that is, or will be, retained."""
        content = self.content(path, version)
        if content is not None:
            return Retained(stored=content.stored, size=len(content.data), modified=content.modified)
        record = self._view.version(path, version)
        if record is None:
            raise KeyError(f"version {version} of {path} is not retained")
        return Retained(stored=record.etag, size=record.size, modified=record.modified)

    def content(self, path: str, version: int) -> Content | None:
        """A version that is decided and not durable yet."""
        for decision in self._decided.get(path, ()):
            if decision.content is not None and decision.version == version:
                return decision.content
        return None

    def add(self, path: str, decision: Decision) -> None:
        """Put a decision on top."""
        if decision.changes and decision.after is not None:
            self._decided.setdefault(path, deque()).append(decision)
            self._new_documents += decision.new
            self._growth += decision.growth
        if decision.also is not None:
            self.add(*decision.also)

    def became_durable(self, path: str, decision: Decision) -> None:
        """Take the oldest decision on a path away, now that the view has it."""
        if decision.changes and decision.after is not None:
            decided = self._decided[path]
            decided.popleft()
            self._new_documents -= decision.new
            self._growth -= decision.growth
            if not decided:
                del self._decided[path]
        if decision.also is not None:
            self.became_durable(*decision.also)

    def forget(self) -> None:
        """Go back to the view alone."""
        self._decided.clear()
        self._new_documents = self._growth = 0
