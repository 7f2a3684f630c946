"""Taking turns with other writers of the same log: a pure decision, because nobody leads and the quickest would win.

Whoever won while others write too leaves them a moment before the next slot. Whoever lost several times in a row
offers only its oldest request: a slot of one is decided anew at once, so the next try starts as early as it can.
"""

PEERS_MS = 3000
"""A peer that wrote so recently is thought to go on."""

COURTESY = 0.02
"""Seconds that are left to the others; with a pause's jitter at most 0.03."""

LOSSES = 3


class Fairness:
    """What a committer remembers of its last slots. Times are those of one clock, in ms."""

    def __init__(self) -> None:
        self._peer_wrote: int | None = None
        self._lost = 0
        self._owes = False

    def peer_wrote(self, now: int) -> None:
        """A slot of somebody else was taken in."""
        self._peer_wrote = now

    def lost(self) -> None:
        """Somebody else's slot has the name that was tried."""
        self._lost += 1
        self._owes = False

    def won(self, now: int) -> None:
        """Our slot is in the log."""
        self._lost = 0
        self._owes = self._peer_wrote is not None and 0 <= now - self._peer_wrote < PEERS_MS

    def courtesy(self) -> float:
        """Seconds to wait before the next offer; asked once for each."""
        owes, self._owes = self._owes, False
        return COURTESY if owes else 0.0

    @property
    def one_at_a_time(self) -> bool:
        """Whether only the oldest request is to be offered."""
        return self._lost >= LOSSES
