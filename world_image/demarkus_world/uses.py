"""When capability tokens were last used: an old one can go once nobody comes with it any more.

Kept by hash, because a token that is exchanged goes on under another label. Nothing of it outlives the process, so a
token that was not seen yet counts as used at the moment from which on it would have been seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mark_protocol.tokens import CapabilityToken, TokenSet


class Uses:
    """The uses that one process saw. `clock` gives seconds since 1970."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: dict[str, int] = {}
        self._tokens: tuple[CapabilityToken, ...] = ()

    def watching(self, tokens: TokenSet) -> TokenSet:
        """The same tokens, whose finds are noticed; they take the place of those that were watched before."""
        now = self._now()
        self._tokens = tokens.tokens
        self._last = {token.hash: self._last.get(token.hash, now) for token in tokens.tokens}
        return _Watched(self._tokens, self._seen)

    @property
    def facts(self) -> Mapping[str, int]:
        """Label -> milliseconds since 1970, after which the token was not used."""
        last: dict[str, int] = {}
        for token in self._tokens:
            last[token.label] = max(last.get(token.label, 0), self._last[token.hash])
        return last

    def _seen(self, token: CapabilityToken) -> None:
        # A request that came before a reload may end after it.
        if token.hash in self._last:
            self._last[token.hash] = self._now()

    def _now(self) -> int:
        return int(self._clock() * 1000)


class _Watched(TokenSet):
    def __init__(self, tokens: tuple[CapabilityToken, ...], seen: Callable[[CapabilityToken], None]) -> None:
        super().__init__(tokens)
        self._seen = seen

    def find(self, raw: str) -> CapabilityToken | None:
        token = super().find(raw)
        if token is not None:
            self._seen(token)
        return token
