"""What clients of the load do: requests drawn at random, each with the statuses that a world may not answer it with."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from mark_protocol.request import Request, Verb, encode_request

TOKEN = "load"
SMALL, MIDDLE, LARGE = 2 << 10, 64 << 10, 1 << 20
DOCUMENTS, MIDDLES, LARGES = 200, 8, 3
_WORDS = ("kettle", "tea", "steep", "pour", "leaf", "cup", "black", "green", "water", "boil")
WRONG = frozenset({"", "unauthorized", "not-permitted"})
"""What nobody may hear who has the right to all: the credential is in every token file that the load writes."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One request, its name for the report, and whether it is an open WATCH, which ends when its client wants."""

    name: str
    data: bytes
    watch: bool = False


def body(draw: random.Random, size: int) -> bytes:
    """A document of about that size."""
    lines = [f"# {draw.choice(_WORDS).title()} {draw.randrange(1000)}\n\n"]
    line = " ".join(draw.choice(_WORDS) for _ in range(12)) + ".\n"
    return ("".join(lines) + line * (size // len(line))).encode()[:size]


def small(draw: random.Random) -> str:
    """The path of a document that changes."""
    return f"/notes/{draw.randrange(10)}/{draw.randrange(DOCUMENTS // 10)}.md"


def seeds(draw: random.Random, *, filling: int) -> list[Operation]:
    """What has to be there before the load: every document once, and large ones that fill a world's caches."""
    paths = [(f"/notes/{i}/{j}.md", SMALL) for i in range(10) for j in range(DOCUMENTS // 10)]
    paths += [(f"/middle/{i}.md", MIDDLE) for i in range(MIDDLES)] + [(f"/large/{i}.md", LARGE) for i in range(LARGES)]
    made = [_made(Verb.PUBLISH, path, body(draw, size), tags="load") for path, size in paths]
    for number in range(filling):
        path = f"/filling/{number}.md"
        made += [_made(Verb.PUBLISH, path, body(draw, LARGE)), _made(Verb.FETCH, path)]
    return made


def operation(draw: random.Random) -> Operation:
    """One of all kinds, the common ones more often."""
    return draw.choices(_MAKERS, weights=_WEIGHTS)[0](draw)


def unread(draw: random.Random) -> bytes:
    """A request whose answer is long."""
    return _made(Verb.FETCH, _large(draw)).data


def _large(draw: random.Random) -> str:
    return f"/large/{draw.randrange(LARGES)}.md"


def _made(verb: Verb, path: str, content: bytes = b"", *, name: str = "", **metadata: str) -> Operation:
    keys = {key.replace("_", "-"): value for key, value in metadata.items()}
    request = Request(verb, path, {"auth": TOKEN, **keys}, content)
    return Operation(name or verb.value, encode_request(request), watch=verb is Verb.WATCH)


_NO_REQUESTS = (b"BREW /tea.md\n", b"FETCH\n", b"FETCH /\n---\n[\n---\n", b"\xff" * 30, b"")
_Maker = Callable[[random.Random], Operation]
_KINDS: tuple[tuple[int, _Maker], ...] = (
    (120, lambda draw: _made(Verb.FETCH, small(draw))),
    (24, lambda draw: _made(Verb.FETCH, small(draw), if_none_match="0" * 64, name="FETCH if changed")),
    (24, lambda draw: _made(Verb.FETCH, f"{small(draw)}/v{draw.randrange(1, 4)}", name="FETCH version")),
    (16, lambda draw: _made(Verb.FETCH, f"/middle/{draw.randrange(MIDDLES)}.md", name="FETCH 64 KiB")),
    (4, lambda draw: _made(Verb.FETCH, _large(draw), name="FETCH 1 MiB")),
    (8, lambda draw: _made(Verb.FETCH, f"/sha256-{'0a' * 32}", name="FETCH by hash")),
    (24, lambda draw: _made(Verb.LIST, f"/notes/{draw.randrange(11)}/", page_size=str(draw.randrange(1, 30)))),
    (24, lambda draw: _made(Verb.VERSIONS, small(draw))),
    (20, lambda draw: _made(Verb.LOOKUP, "/", query=draw.choice(_WORDS))),
    (8, lambda draw: _made(Verb.LOOKUP, "/notes/", query=draw.choice(_WORDS), match="body", name="LOOKUP body")),
    (32, lambda draw: _made(Verb.PUBLISH, small(draw), body(draw, SMALL), tags="load")),
    (20, lambda draw: _made(Verb.APPEND, small(draw), b"More.\n", expected_version=str(draw.randrange(1, 20)))),
    (1, lambda draw: _made(Verb.PUBLISH, _large(draw), body(draw, LARGE), name="PUBLISH 1 MiB")),
    (4, lambda draw: _made(Verb.ARCHIVE, small(draw))),
    (8, lambda draw: _made(Verb.PUBLISH, small(draw), name="unarchive")),
    (8, lambda draw: _made(Verb.WATCH, draw.choice(("/", "/notes/1/", small(draw))))),
    (8, lambda draw: Operation("no request", draw.choice(_NO_REQUESTS))),
)  # fmt: skip
_WEIGHTS = [weight for weight, _ in _KINDS]
_MAKERS = [maker for _, maker in _KINDS]
