"""Which calls fail, and how.

A fault is a value: the calls it meets, its kind, how often, how long. Chance comes from one seeded generator, so a run
can be repeated. Kinds:

    refuse  answer `status` and do nothing
    lose    do it, then answer `status`: the caller can't know
    cut     do it, then close the connection without an answer
    torn    send half of the answer's body, then close the connection
    late    answer `status` at once and do it `seconds` later
    slow    do it after `seconds`; may come together with another fault
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["refuse", "lose", "cut", "torn", "late", "slow"]
Call = Literal["insert", "get", "delete", "list", "admin"]
KINDS: tuple[Kind, ...] = ("refuse", "lose", "cut", "torn", "late", "slow")
CALLS: tuple[Call, ...] = ("insert", "get", "delete", "list", "admin")


@dataclass(slots=True, kw_only=True)
class Fault:
    """One way to fail.

    Attributes:
        kind: see the module.
        calls: the calls it may meet; empty = all.
        prefix: only objects (or list prefixes) whose name begins so.
        chance: from 0 to 1.
        times: how often at most; None = always.
        status: the HTTP status of `refuse`, `lose` and `late`.
        seconds: of `slow` and `late`.
    """

    kind: Kind
    calls: tuple[Call, ...] = ()
    prefix: str = ""
    chance: float = 1.0
    times: int | None = None
    status: int = 503
    seconds: float = 0.0

    @classmethod
    def of(cls, value: dict[str, Any]) -> Fault:
        """From JSON. Raises ValueError for an unknown kind or call, TypeError for an unknown field."""
        fault = cls(**{**value, "calls": tuple(value.get("calls", ()))})
        if fault.kind not in KINDS or not set(fault.calls) <= set(CALLS):
            raise ValueError(f"kinds are {KINDS}, calls are {CALLS}")
        return fault


class Faults:
    """The faults in force; each call asks once. `struck` counts by kind."""

    def __init__(self, faults: Sequence[Fault] = (), *, seed: int = 0) -> None:
        self._faults = list(faults)
        self._random = random.Random(seed)
        self.struck: Counter[str] = Counter()

    def replace(self, faults: Sequence[Fault]) -> None:
        """From now on these and no others."""
        self._faults = list(faults)

    def meet(self, call: Call, name: str) -> tuple[float, Fault | None]:
        """The delay in seconds of this call, and the first other fault that strikes it."""
        delay, struck = 0.0, None
        for fault in self._faults:
            if (fault.calls and call not in fault.calls) or not name.startswith(fault.prefix) or fault.times == 0:
                continue
            if (fault.kind != "slow" and struck) or self._random.random() >= fault.chance:
                continue
            if fault.times is not None:
                fault.times -= 1
            self.struck[fault.kind] += 1
            if fault.kind == "slow":
                delay += fault.seconds
            else:
                struck = fault
        return delay, struck
