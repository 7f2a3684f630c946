"""What running processes say of themselves, as values that a plan is made from.

A process is asked on its health port (`/readyz?verbose`). One that can't be reached says nothing, and whoever waits for
it waits on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one process says.

    Attributes:
        pod: the name of its pod.
        reached: whether it answered at all; if not, nothing below counts.
        ready: whether it serves.
        history: the identifier of the history that it serves; of worlds only.
        incarnation: the identifier of that history's life; of worlds only.
        loaded: SHA-256 of the content in force, by what it is (`config`, `tls`, `keySet`, ...).
        used: when it last saw a capability token used, in milliseconds since 1970, by the token's label.
        problems: why it does not serve, in its own words.
    """

    pod: str
    reached: bool = True
    ready: bool = False
    history: str | None = None
    incarnation: str | None = None
    loaded: Mapping[str, str] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
