"""The books: every entry of the log against what the clients asked for and were told.

An entry was asked for once, by an operation that was told so or told nothing; what was told is an entry; what ended
before something else was called stands before it. No search: the log itself is the order.
"""

from __future__ import annotations

from collections.abc import Sequence

from demarkus_world.engine.entries import Entry, Op
from tests.stress.register import Bodies, Operation, Register, effect


def faults(entries: Sequence[Entry], operations: Sequence[Operation]) -> list[str]:
    """What does not add up; empty when everything does."""
    found: list[str] = []
    bodies = Bodies()
    states: dict[str, Register] = {}
    texts: dict[str, dict[str, Operation]] = {}
    changed: dict[str, tuple[Operation, int]] = {}
    for asked in operations:
        if asked.text:
            texts.setdefault(asked.path, {})[asked.text] = asked
            bodies.keep(asked.text.encode())
    for entry in entries:
        if entry.op not in (Op.PUBLISH, Op.APPEND):
            continue
        state = states.get(entry.path, Register())
        operation = _author(entry, state, texts.get(entry.path, {}), bodies)
        if operation is None:
            found.append(f"entry {entry.seq}: {entry.op} of {entry.path} v{entry.version}: nobody asked for it")
            continue
        if operation.name in changed:
            found.append(f"entry {entry.seq}: {operation.name} is in the log a second time")
        told = (operation.outcome, operation.version)
        if not operation.unknown and told != ("created", entry.version):
            found.append(f"entry {entry.seq}: {operation.name} made v{entry.version} and was told {told}")
        changed[operation.name] = operation, entry.seq
        outcome, after = effect(state._replace(archived=False), operation, bodies)
        if outcome != "created" or after.version != entry.version:
            found.append(f"entry {entry.seq}: {operation.name} could not have made v{entry.version}, it is {outcome}")
        states[entry.path] = after
    for asked in operations:
        if asked.outcome == "created" and asked.name not in changed:
            found.append(f"{asked.name}: v{asked.version} of {asked.path} was acknowledged and is lost")
    found += _out_of_order(list(changed.values()))
    return found


def _author(entry: Entry, state: Register, texts: dict[str, Operation], bodies: Bodies) -> Operation | None:
    """Who asked for the body that the entry records."""
    if entry.op is Op.PUBLISH:
        return next((o for text, o in texts.items() if bodies.keep(text.encode()) == entry.body), None)
    appends = (o for o in texts.values() if o.op == "append" and o.expected == entry.version - 1)
    return next((o for o in appends if bodies.appended(state.body, o.text.encode()) == entry.body), None)


def _out_of_order(changed: list[tuple[Operation, int]]) -> list[str]:
    """Operations that ended before another one was called, and stand behind it in the log."""
    found: list[str] = []
    latest: tuple[int, str] = (0, "")
    ended = sorted(changed, key=lambda pair: pair[0].ended)
    position = 0
    for operation, sequence in sorted(changed, key=lambda pair: pair[0].called):
        while position < len(ended) and ended[position][0].ended < operation.called:
            latest = max(latest, (ended[position][1], ended[position][0].name))
            position += 1
        if latest[0] > sequence:
            found.append(
                f"{operation.name} (entry {sequence}) was called after {latest[1]} (entry {latest[0]}) had ended"
            )
    return found
