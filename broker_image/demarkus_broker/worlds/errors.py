"""Why a world gave no answer. Each is of the kind "try later"; what to tell the caller is the tools' business."""

from __future__ import annotations


class WorldError(Exception):
    """No answer of a world. `world` is its name."""

    def __init__(self, world: str, reason: str) -> None:
        super().__init__(f"world {world}: {reason}")
        self.world = world


class Unavailable(WorldError):
    """Nothing was done there: it can't be reached, does not answer, or has too much to do. `after`: seconds to wait."""

    def __init__(self, world: str, reason: str, *, after: float = 1.0) -> None:
        super().__init__(world, reason)
        self.after = after


class AnswerLost(WorldError):
    """A write has left and its answer has not come: it may or may not have been made."""


class GrantRefused(WorldError):
    """The world does not take the broker's own credential. Its caller's bearer is fine."""
