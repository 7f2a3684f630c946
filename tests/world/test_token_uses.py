"""What a world tells of the use of its tokens, by which a rotation learns that an old one can go."""

from __future__ import annotations

from demarkus_world.uses import Uses
from mark_protocol.tokens import CapabilityToken, TokenSet, hash_token


def tokens(**labels: str) -> TokenSet:
    return TokenSet(CapabilityToken(label, hash_token(raw)) for label, raw in labels.items())


class Clock:
    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def test_token_counts_as_used_at_the_start_and_then_when_it_was() -> None:
    clock = Clock()
    uses = Uses(clock)
    watched = uses.watching(tokens(importer="red", reader="blue"))
    clock.seconds = 1060.5
    assert watched.find("red") is not None
    assert watched.find("green") is None
    assert uses.facts == {"importer": 1_060_500, "reader": 1_000_000}


def test_exchanged_token_keeps_its_uses_under_another_label() -> None:
    clock = Clock()
    uses = Uses(clock)
    first = uses.watching(tokens(importer="red"))
    first.find("red")
    clock.seconds = 2000.0
    second = uses.watching(tokens(**{"importer": "green", "importer.previous": "red"}))
    assert uses.facts == {"importer": 2_000_000, "importer.previous": 1_000_000}
    clock.seconds = 3000.0
    second.find("red")
    assert uses.facts["importer.previous"] == 3_000_000


def test_request_from_before_a_reload_does_not_bring_a_token_back() -> None:
    uses = Uses(Clock())
    first = uses.watching(tokens(importer="red"))
    uses.watching(tokens(reader="blue"))
    assert first.find("red") is not None
    assert uses.facts.keys() == {"reader"}
