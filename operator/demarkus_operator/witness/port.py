"""What the reconcilers need of the witness."""

from __future__ import annotations

from typing import Protocol

from demarkus_operator.plan.inquiry import Inquiry
from demarkus_operator.plan.objects import Ref
from demarkus_operator.plan.witness import Testimony


class Witness(Protocol):
    """Asks Worlds for the signed note of their history, and for the proof that it goes on from an earlier one."""

    async def testimony(self, ref: Ref, inquiry: Inquiry) -> Testimony | None:
        """What a World says, None if nothing is known; not every call asks it.

        Ends within a few seconds and raises nothing.
        """


class NobodyWitnesses:
    """No World is ever asked."""

    async def testimony(self, ref: Ref, inquiry: Inquiry) -> Testimony | None:
        """Nothing."""
        return None
