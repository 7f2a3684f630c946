"""Why a plan changes nothing: somebody has to change something first."""

from __future__ import annotations

from demarkus_operator.api.conditions import Condition, ConditionType, Reason


class Refusal(Exception):
    """The object can't be realised as it is. The message names object, field, expectation and what helps."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Both conditions, false."""
        return unmet(self.reason, self.message)


def unmet(reason: Reason, message: str) -> tuple[Condition, ...]:
    """`Ready` and `Reconciled`, both false for one reason."""
    types = (ConditionType.READY, ConditionType.RECONCILED)
    return tuple(Condition(type=type_, status=False, reason=reason, message=message) for type_ in types)
