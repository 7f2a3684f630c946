"""What the reconcilers need to know of running processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from demarkus_operator.plan.objects import Ref
from demarkus_operator.plan.reports import Report


class Processes(Protocol):
    """The processes of Worlds and Universes, wherever they run."""

    async def reports(self, ref: Ref) -> Sequence[Report]:
        """What the processes of a World or Universe say, one report each, in the order of their pods' names.

        Ends within a few seconds. A process that does not answer is a report that says so; when it can't be told which
        processes there are, `PortError` is raised: what nobody contradicts would count as agreed.
        """


class NobodyAsks:
    """No process is ever asked."""

    async def reports(self, ref: Ref) -> Sequence[Report]:
        """Nothing."""
        return ()
