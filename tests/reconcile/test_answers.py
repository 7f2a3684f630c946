"""Answers of the API server as errors in our classes, without what must not be told."""

from __future__ import annotations

from typing import Any

import pytest

from demarkus_operator.cluster.kubernetes import MESSAGE_LENGTH, failure
from demarkus_operator.cluster.port import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    PortError,
    TryLater,
)

UID_CAUSE = {"causes": [{"field": "metadata.uid", "message": "field is immutable"}]}


@pytest.mark.parametrize(
    ("status", "answer", "error"),
    [
        (400, {"reason": "BadRequest"}, Invalid),
        (401, {}, TryLater),
        (403, {"reason": "Forbidden"}, Forbidden),
        (404, {"reason": "NotFound"}, NotFound),
        (405, {"reason": "MethodNotAllowed"}, PortError),
        (408, {}, TryLater),
        (409, {"reason": "AlreadyExists"}, AlreadyExists),
        (409, {"reason": "Conflict"}, Conflict),
        (410, {"reason": "Expired"}, TryLater),
        (413, {}, Invalid),
        (422, {"reason": "Invalid"}, Invalid),
        (422, {"reason": "Invalid", "details": UID_CAUSE}, Conflict),
        (429, {"reason": "TooManyRequests"}, TryLater),
        (500, {"reason": "InternalError"}, TryLater),
        (500, {"message": "failed to create typed patch object (x): .y: field not declared in schema"}, Invalid),
        (503, {}, TryLater),
        (504, {}, TryLater),
    ],
)
def test_answer_is_an_error_of_its_class(status: int, answer: dict[str, Any], error: type[PortError]) -> None:
    assert type(failure(status, answer, None, what="get World a/b", quiet=False)) is error


def test_message_names_the_call_and_the_answer() -> None:
    answer = {"reason": "Forbidden", "message": "exceeded quota"}
    assert str(failure(403, answer, None, what="apply Service a/b", quiet=False)) == (
        "apply Service a/b: 403 Forbidden: exceeded quota"
    )


def test_what_is_said_of_a_secret_is_not_told() -> None:
    answer = {"reason": "Invalid", "message": "data[token]: Invalid value: hunter2"}
    assert str(failure(422, answer, None, what="create Secret a/b", quiet=True)) == "create Secret a/b: 422 Invalid"


def test_message_is_bounded() -> None:
    assert len(str(failure(422, {"message": "x" * 10_000}, None, what="get", quiet=False))) < MESSAGE_LENGTH + 50


@pytest.mark.parametrize(("header", "delay"), [("7", 7.0), (None, None), ("soon", None)])
def test_delay_that_is_asked_for_is_kept(header: str | None, delay: float | None) -> None:
    error = failure(429, {}, header, what="get", quiet=False)
    assert isinstance(error, TryLater)
    assert error.delay == delay
