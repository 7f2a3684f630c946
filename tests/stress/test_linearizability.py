"""The judge is judged: legal histories pass, and each kind of lie is found."""

from __future__ import annotations

import hashlib
import itertools
import random
from dataclasses import replace
from typing import Any

import pytest

from tests.stress.linearizability import furthest
from tests.stress.register import NEVER, Bodies, Operation, Register, effect

names = (f"op {number}" for number in itertools.count())


def op(word: str, called: int, ended: int, outcome: str, version: int = 0, **given: Any) -> Operation:
    if outcome == "unknown":
        ended = NEVER
    return Operation(
        name=next(names), op=word, path="/a.md", called=called, ended=ended, outcome=outcome, version=version, **given
    )


def read(called: int, ended: int, version: int, text: str, **given: Any) -> Operation:
    body = hashlib.sha256(text.encode()).hexdigest() if text else ""
    return op("read", called, ended, "seen", version, body=body, **given)


def holds(*history: Operation) -> bool:
    return furthest(history)[0] == sum(not operation.unknown for operation in history)


FIRST = op("publish", 0, 10, "created", 1, text="one", expected=0)


@pytest.mark.parametrize(
    "history",
    [
        (read(0, 1, 0, ""), FIRST, read(11, 12, 1, "one")),
        (FIRST, read(5, 6, 0, ""), read(7, 8, 1, "one")),
        (FIRST, op("append", 11, 12, "created", 2, text="two", expected=1), read(13, 14, 2, "one\ntwo")),
        (FIRST, op("archive", 11, 12, "archived", 1), read(15, 16, 1, "one", archived=True)),
        (FIRST, op("archive", 11, 12, "archived", 1), op("publish", 13, 14, "closed", text="x")),
        (FIRST, op("publish", 11, 12, "conflict", 1, text="x", expected=0)),
        (FIRST, op("publish", 11, 12, "unchanged", 1, text="one")),
        (op("append", 0, 1, "missing", text="x", expected=3), op("archive", 2, 3, "missing")),
        (FIRST, op("publish", 11, 0, "unknown", text="two"), read(20, 21, 2, "two"), read(22, 23, 2, "two")),
        (FIRST, op("publish", 11, 0, "unknown", text="two"), read(20, 21, 1, "one"), read(22, 23, 2, "two")),
        (FIRST, op("publish", 11, 0, "unknown", text="two"), read(20, 21, 1, "one")),
        (FIRST, op("publish", 11, 30, "created", 2, text="b"), op("publish", 12, 29, "created", 3, text="c")),
        (FIRST, op("publish", 11, 12, "created", 2, text="b", retention=1), read(13, 14, 2, "b", first=2)),
        (FIRST, op("publish", 11, 12, "created", 2, text="b"), op("prune", 13, 14, "pruned", 2, keep=1)),
        (FIRST, op("prune", 13, 14, "unchanged", 1, keep=1), read(15, 16, 1, "one")),
    ],
)  # fmt: skip
def test_what_can_be_ordered_holds(history: tuple[Operation, ...]) -> None:
    assert holds(*history)


@pytest.mark.parametrize(
    "history",
    [
        pytest.param((FIRST, read(11, 12, 0, "")), id="a read misses what had ended"),
        pytest.param((FIRST, read(2, 3, 1, "one"), read(4, 5, 0, "")), id="a read goes back"),
        pytest.param((read(0, 1, 1, "one"), replace(FIRST, called=2)), id="a read sees what was not yet called"),
        pytest.param((FIRST, read(11, 12, 1, "eins")), id="another body"),
        pytest.param((FIRST, op("publish", 11, 12, "created", 1, text="x", expected=0)), id="two firsts"),
        pytest.param((FIRST, op("publish", 11, 12, "created", 3, text="x")), id="a version nobody made"),
        pytest.param((FIRST, op("publish", 0, 5, "conflict", 2, text="x", expected=0)), id="a conflict with nothing"),
        pytest.param(
            (FIRST, op("publish", 11, 12, "created", 2, text="b"), read(13, 14, 1, "one")),
            id="an acknowledged one lost",
        ),
        pytest.param(
            (FIRST, op("publish", 11, 0, "unknown", text="b"), read(20, 21, 2, "b"), read(22, 23, 1, "one")),
            id="one of unknown outcome comes and goes",
        ),
        pytest.param(
            (FIRST, op("publish", 11, 0, "unknown", text="b"), read(20, 21, 2, "b"), read(22, 23, 3, "b")),
            id="one of unknown outcome twice",
        ),
        pytest.param((FIRST, read(5, 6, 2, "b"), op("publish", 11, 0, "unknown", text="b")), id="before its call"),
        pytest.param((FIRST, op("archive", 11, 12, "archived", 1), read(13, 14, 1, "one")), id="an archive lost"),
        pytest.param(
            (FIRST, op("publish", 11, 12, "created", 2, text="b", retention=1), read(13, 14, 2, "b")),
            id="a prune lost",
        ),
        pytest.param(
            (FIRST, op("append", 11, 12, "created", 2, text="x", expected=1), read(13, 14, 2, "x")),
            id="an append without its base",
        ),
    ],
)
def test_a_lie_is_found(history: tuple[Operation, ...]) -> None:
    assert not holds(*history)


def random_history(chance: random.Random, *, clients: int, length: int) -> list[Operation]:
    """What clients of one register saw; some of them never hear how it ended."""
    state, bodies, history = Register(), Bodies(), []
    free = [0] * clients
    for number in range(length):
        client = chance.randrange(clients)
        called = free[client] + chance.randint(0, 3)
        word = chance.choice(["publish", "publish", "append", "archive", "unarchive", "prune", "read", "read"])
        expected = state.version if word == "append" or (word == "publish" and chance.random() < 0.5) else None
        asked = Operation(
            name=str(number), op=word, path="/a.md", called=called, text=f"{number}", expected=expected,
            retention=chance.choice([0, 0, 2]) if word == "publish" else 0,
            keep=chance.randint(1, 3) if word == "prune" else 0,
        )  # fmt: skip
        # Each takes effect at `number`, between its call and its end, on a clock that goes ten times as fast.
        outcome, after = effect(state, asked, bodies)
        lost = word != "read" and chance.random() < 0.07
        if not (lost and chance.random() < 0.5):
            state = after
        asked = replace(asked, called=number * 10 - chance.randint(0, 60))
        if lost:
            history.append(asked)
            continue
        version = state.version if outcome != "missing" and outcome != "closed" else 0
        told: dict[str, Any] = (
            {"archived": state.archived, "body": state.body, "first": state.first} if word == "read" else {}
        )
        history.append(
            replace(asked, ended=number * 10 + chance.randint(0, 60), outcome=outcome, version=version, **told)
        )
        free[client] = history[-1].ended
    return history


@pytest.mark.parametrize("seed", range(20))
def test_random_histories_of_one_register_hold_and_broken_ones_do_not(seed: int) -> None:
    chance = random.Random(seed)
    history = random_history(chance, clients=5, length=100)
    assert holds(*history)
    versions = [operation for operation in history if operation.outcome == "created"]
    victim = chance.choice(versions[1:])
    assert not holds(*(replace(o, version=o.version + 200) if o is victim else o for o in history))
