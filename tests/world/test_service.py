"""A request between transport and verbs: answered once, logged once, under the rules of its arrival."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from demarkus_world.admission import Admission, RateLimiter
from demarkus_world.authority import Rules
from demarkus_world.metrics import Metrics
from demarkus_world.service import Service
from mark_protocol.request import Request, Verb, encode_request
from mark_protocol.tokens import hash_token
from mark_protocol.transport.port import Address, FailureReason

SECRET = "very-secret-token"
OPEN = (("admin", "/**", ("publish",)),)


@dataclass
class Answers:
    """Stands where the listener is: keeps the answers by stream."""

    sent: dict[int, bytes] = field(default_factory=dict)

    def send(self, conn: int, stream: int, *pieces: bytes, fin: bool = True) -> int:
        """Takes an answer; a second one is an error."""
        assert stream not in self.sent
        assert fin
        self.sent[stream] = b"".join(pieces)
        return 0

    def flush(self) -> None:
        """Nothing is buffered."""


@dataclass
class Desk:
    """A service with what it answers into and what it logs."""

    service: Service
    answers: Answers
    rules: list[Rules]
    caplog: pytest.LogCaptureFixture
    asked: int = 0

    async def ask(self, data: bytes) -> bytes:
        """One whole request; its answer."""
        self.asked += 1
        self.service.request(1, self.asked, data)
        await self.service.finish()
        return self.answers.sent[self.asked]

    def lines(self) -> list[dict[str, Any]]:
        """The fields of the lines logged for requests."""
        return [record.fields for record in self.caplog.records if record.message == "request"]  # type: ignore[attr-defined]


@pytest.fixture
async def a_desk(a_world: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> Callable[..., Any]:
    """Makes services over a world in memory."""
    caplog.set_level(logging.INFO)

    async def make(*, per_second: float = 0, burst: int = 1, tokens: Any = OPEN, **changes: Any) -> Desk:
        world = await a_world(tokens=tokens, **changes)
        the_rules = [world.rules]
        service = Service(
            engine=world.engine,
            admission=Admission(RateLimiter(per_second=per_second, burst=burst)),
            rules=lambda: the_rules[0],
            request_timeout=lambda: 5.0,
            compatible=False,
            metrics=Metrics(),
        )
        answers = Answers()
        service.answer_through(answers)  # type: ignore[arg-type]
        service.opened(1, Address("192.0.2.7", 40_000), None)
        return Desk(service, answers, the_rules, caplog)

    return make


def a_publish(path: str, body: bytes = b"x", **metadata: str) -> bytes:
    return encode_request(Request(Verb.PUBLISH, path, metadata, body))


async def test_each_request_is_one_line(a_desk: Callable[..., Any]) -> None:
    desk = await a_desk()
    await desk.ask(a_publish("/a.md", auth="admin"))
    await desk.ask(b"FETCH /none.md\n")
    lines = desk.lines()
    assert [(line["verb"], line["path"], line["status"], line["credential"]) for line in lines] == [
        ("PUBLISH", "/a.md", "created", "token:label-admin"),
        ("FETCH", "/none.md", "not-found", ""),
    ]
    assert all(line["milliseconds"] >= 0 for line in lines)


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"", b"---\nstatus: server-error\n---\n\n# Server error\n\ncould not read request\n"),
        (b"\xff\xfe\x00", b"---\nstatus: bad-request\n---\n\n# Bad request\n\nbad request\n"),
        (b"FETCH /a\n---\n- x\n---\n", b"---\nstatus: bad-request\n---\n\n# Bad request\n\nbad request\n"),
    ],
)
async def test_what_is_no_request_is_one_line_too(a_desk: Callable[..., Any], data: bytes, answer: bytes) -> None:
    desk = await a_desk()
    assert await desk.ask(data) == answer
    assert [(line["verb"], line["path"]) for line in desk.lines()] == [("", "")]
    assert len(desk.caplog.records) == 1


@pytest.mark.parametrize("reason", list(FailureReason))
async def test_a_request_that_is_never_whole_is_answered(a_desk: Callable[..., Any], reason: FailureReason) -> None:
    desk = await a_desk()
    desk.service.failed(1, 9, reason)
    assert desk.answers.sent[9] == b"---\nstatus: server-error\n---\n\n# Server error\n\ncould not read request\n"
    assert [(line["status"], line["problem"]) for line in desk.lines()] == [
        ("server-error", f"request is not whole: {reason}")
    ]


async def test_a_19_no_credential_is_ever_logged(a_desk: Callable[..., Any], a_grant: Callable[..., str]) -> None:
    desk = await a_desk(tokens=((SECRET, "/a.md", ("publish",)),), grants=True)
    grant = a_grant(("read", "/**"))
    for auth in (SECRET, SECRET + "x", grant, grant[:-3] + "AAA"):
        await desk.ask(a_publish("/a.md", auth=auth))
        await desk.ask(a_publish("/b.md", auth=auth))
        await desk.ask(a_publish("/a.md", auth=auth, version="x"))
        await desk.ask(a_publish("/a.md", auth=auth)[:-4])
    logged = repr([(record.message, vars(record)) for record in desk.caplog.records])
    logged = logged.replace(f"label-{SECRET}", "the label")
    assert len(desk.lines()) == 16
    for secret in (SECRET, hash_token(SECRET), hash_token(SECRET)[7:], grant, grant.split(".")[2][:20]):
        assert secret not in logged


async def test_c_26_a_reload_does_not_change_the_rules_of_a_request(a_desk: Callable[..., Any]) -> None:
    desk = await a_desk()
    closed = Rules(reads=desk.rules[0].reads, audience=desk.rules[0].audience)
    desk.service.request(1, 100, a_publish("/a.md", auth="admin"))
    desk.rules[0] = closed
    desk.service.request(1, 101, a_publish("/b.md", auth="admin"))
    await desk.service.finish()
    assert b"status: created" in desk.answers.sent[100]
    assert b"publishing requires auth configuration" in desk.answers.sent[101]


class TestRates:
    async def test_c_49_a_caller_over_its_rate_gets_an_answer(self, a_desk: Callable[..., Any]) -> None:
        desk = await a_desk(per_second=0.001, burst=2)
        answers = [await desk.ask(b"FETCH /health\n") for _ in range(3)]
        assert answers[2] == b"---\nstatus: rate-limited\n---\n"
        assert [line["status"] for line in desk.lines()] == ["ok", "ok", "rate-limited"]

    async def test_a_valid_credential_has_a_rate_of_its_own(self, a_desk: Callable[..., Any]) -> None:
        desk = await a_desk(per_second=0.001, burst=1)
        for auth, status in (("wrong", b"unauthorized"), ("wrong", b"rate-limited"), ("admin", b"created")):
            assert b"status: " + status in await desk.ask(a_publish("/a.md", auth=auth))
        assert b"rate-limited" in await desk.ask(b"")  # what is no request counts for the address
        assert b"rate-limited" in await desk.ask(a_publish("/a.md", auth="admin"))

    async def test_whose_turn_comes_in_time_waits_for_it(self, a_desk: Callable[..., Any]) -> None:
        desk = await a_desk(per_second=100, burst=1)
        for stream in range(5):
            desk.service.request(1, stream, b"FETCH /health\n")
        await desk.service.finish()
        assert all(b"status: ok" in answer for answer in desk.answers.sent.values())


@pytest.mark.parametrize("where", ["parse_request", "answer_at_once", "answer"])
async def test_a_bug_costs_one_answer_and_leaves_a_trace(
    a_desk: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    desk = await a_desk()
    monkeypatch.setattr(f"demarkus_world.service.{where}", lambda *_, **__: 1 / 0)
    assert await desk.ask(b"FETCH /\n") == b"---\nstatus: server-error\n---\n\n# Server error\n\ninternal error\n"
    [record] = desk.caplog.records
    assert record.levelname == "ERROR"
    assert record.exc_info is not None
    monkeypatch.undo()
    assert b"status: not-found" in await desk.ask(b"FETCH /a.md\n")


async def test_what_is_in_memory_is_answered_in_the_batch_it_came_in(a_desk: Callable[..., Any]) -> None:
    desk = await a_desk(tokens=(("admin", "/**", ("publish", "read")),))
    await desk.ask(a_publish("/a.md", auth="admin"))
    fetch = encode_request(Request(Verb.FETCH, "/a.md", {"auth": "admin"}))
    asked = {
        50: (fetch, b"status: ok"),
        51: (b"FETCH /a.md\n", b"status: unauthorized"),
        52: (fetch, b"status: ok"),
        53: (b"BREW /a.md\n", b"status: bad-request"),
    }
    for stream, (data, _) in asked.items():
        desk.service.request(1, stream, data)
    assert {stream: expected in desk.answers.sent[stream] for stream, (_, expected) in asked.items()} == dict.fromkeys(
        asked, True
    )
    assert desk.answers.sent[50] == desk.answers.sent[52]
    await desk.ask(a_publish("/a.md", b"y", auth="admin"))
    desk.service.request(1, 54, fetch)
    assert desk.answers.sent[54].endswith(b"---\ny")
    await desk.ask(encode_request(Request(Verb.ARCHIVE, "/a.md", {"auth": "admin"})))
    desk.service.request(1, 55, fetch)
    assert b"status: archived" in desk.answers.sent[55]


async def test_an_answer_to_a_peer_that_is_gone_is_still_logged(a_desk: Callable[..., Any]) -> None:
    desk = await a_desk()
    desk.service.request(1, 5, b"FETCH /a.md\n")
    desk.service.closed(1, 0, "")
    await desk.service.finish()
    assert [line["status"] for line in desk.lines()] == ["not-found"]
