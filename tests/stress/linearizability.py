"""Whether a history could have come from one register: a search for an order of its operations (Wing and Gong, 1993).

The order has to respect time (what ended before another was called comes first) and what each caller was told. What
nobody was told of may stand anywhere after its call, or nowhere. Positions already tried are remembered (Lowe, 2017).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.stress.register import Bodies, Operation, Register, step

POSITIONS = 2_000_000

Position = tuple[int, frozenset[int], frozenset[int], Register]
"""Definite operations below an index are placed, so are those of the first set; the second holds unknown ones."""


class Undecided(Exception):
    """The search was given up."""


def furthest(history: Sequence[Operation]) -> tuple[int, Register]:
    """How many of the definite operations can be placed, and the register at the best attempt.

    Linearizable means: all of them. Raises Undecided.
    """
    definite = sorted((operation for operation in history if not operation.unknown), key=lambda op: op.called)
    unknown = sorted((operation for operation in history if operation.unknown), key=lambda op: op.called)
    bodies = Bodies()
    start: Position = (0, frozenset(), frozenset(), Register())
    tried = {start}
    stack = [_following(start, definite, unknown, bodies)]
    best = (0, Register())
    while stack:
        position = next(stack[-1], None)
        if position is None:
            stack.pop()
            continue
        if position in tried:
            continue
        tried.add(position)
        if len(tried) > POSITIONS:
            raise Undecided(f"{len(tried)} positions tried, {best[0]} of {len(definite)} operations placed")
        placed = position[0] + len(position[1])
        if placed > best[0]:
            best = (placed, position[3])
        if placed == len(definite):
            break
        stack.append(_following(position, definite, unknown, bodies))
    return best


def _following(
    position: Position, definite: Sequence[Operation], unknown: Sequence[Operation], bodies: Bodies
) -> Iterator[Position]:
    """Where the search can go on: by an operation that was called before any other that waits had ended."""
    index, beyond, used, state = position
    limit = None
    candidates: list[int] = []
    for number in range(index, len(definite)):
        operation = definite[number]
        if limit is not None and operation.called > limit:
            break
        if number not in beyond:
            candidates.append(number)
            limit = operation.ended if limit is None else min(limit, operation.ended)
    for number in candidates:
        if limit is not None and definite[number].called > limit:
            continue
        after = step(state, definite[number], bodies)
        if after is not None:
            yield (*_advanced(index, beyond | {number}), used, after)
    alike: set[tuple[str, str, int | None, int]] = set()
    for number, operation in enumerate(unknown):
        if limit is not None and operation.called > limit:
            break
        likeness = (operation.op, operation.text, operation.expected, operation.keep)
        # Of those that ask for the same thing the one that was called first will do.
        if number not in used and likeness not in alike:
            alike.add(likeness)
            after = step(state, operation, bodies)
            if after is not None:
                yield index, beyond, used | {number}, after


def _advanced(index: int, beyond: frozenset[int]) -> tuple[int, frozenset[int]]:
    while index in beyond:
        beyond -= {index}
        index += 1
    return index, beyond
