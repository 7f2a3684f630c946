"""The pooled client: which connections it keeps, what it sends again, and what it never does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from mark_protocol.client.client import ATTEMPTS, MarkClient, OutcomeUnknown, Unreachable
from mark_protocol.client.pool import Pool
from mark_protocol.client.settle import settle
from mark_protocol.request import Request, Verb, parse_request
from mark_protocol.response import Response, encode_response
from mark_protocol.transport.port import Limits, NotSent, Trust, Unanswered

OK = encode_response(Response("ok", {"version": "1"}, b"# Tea\n"))


@pytest.fixture
async def a_pool(trust: Trust) -> AsyncIterator:
    """Makes pools towards one or more addresses."""
    async with AsyncExitStack() as stack:

        def make(*addresses, **options) -> Pool:
            pool = Pool(addresses, server_name="localhost", trust=options.pop("trust", trust), **options)
            stack.push_async_callback(pool.close)
            return pool

        yield make


async def test_requests_of_one_client_share_connections(kit, a_pool):
    server = await kit.listener(answer=lambda data: (OK,))
    client = MarkClient(a_pool(server.listener.address))
    for _ in range(10):
        assert await client.fetch("/tea.md") == Response("ok", {"version": "1"}, b"# Tea\n")
    assert len(server.of("opened")) == 1
    await asyncio.gather(*(client.fetch("/tea.md") for _ in range(100)))
    assert len(server.of("opened")) <= 4


async def test_each_verb_becomes_its_request(kit, a_pool):
    server = await kit.listener(answer=lambda data: (OK,))
    client = MarkClient(a_pool(server.listener.address), auth="secret")
    await client.fetch("/a.md", metadata={"if-none-match": "x"})
    await client.list("/")
    await client.versions("/a.md")
    await client.publish("/a.md", b"text", expected_version=0, metadata={"title": "A"})
    await client.append("/a.md", b"more", expected_version=1)
    await client.archive("/a.md")
    await client.lookup("/notes/", "tea")
    await client.lookup("/", "*", filter="tag=x", limit=5, match="body", include_superseded=True)
    auth = {"auth": "secret"}
    assert [parse_request(data) for data in server.requests] == [
        Request(Verb.FETCH, "/a.md", {"if-none-match": "x", **auth}),
        Request(Verb.LIST, "/", auth),
        Request(Verb.VERSIONS, "/a.md", auth),
        Request(Verb.PUBLISH, "/a.md", {"expected-version": "0", "title": "A", **auth}, b"text"),
        Request(Verb.APPEND, "/a.md", {"expected-version": "1", **auth}, b"more"),
        Request(Verb.ARCHIVE, "/a.md", auth),
        Request(Verb.LOOKUP, "/notes/", {"query": "tea", **auth}),
        Request(
            Verb.LOOKUP,
            "/",
            {"query": "*", "filter": "tag=x", "limit": "5", "match": "body", "include-superseded": "true", **auth},
        ),
    ]


async def test_a_credential_can_be_asked_for_and_a_given_one_wins(kit, a_pool):
    server = await kit.listener(answer=lambda data: (OK,))
    count = iter(range(9))

    async def fresh() -> str:
        return f"grant {next(count)}"

    client = MarkClient(a_pool(server.listener.address), auth=fresh)
    await client.fetch("/a.md")
    await client.fetch("/a.md")
    await client.fetch("/a.md", metadata={"auth": "own"})
    assert [parse_request(data).metadata["auth"] for data in server.requests] == ["grant 0", "grant 1", "own"]


async def test_a_9_c_41_a_list_is_asked_for_each_time(kit, a_pool):
    server = await kit.listener(answer=lambda data: (OK,))
    client = MarkClient(a_pool(server.listener.address))
    await client.list("/")
    await client.list("/")
    assert len(server.requests) == 2


async def test_a_refusal_is_a_response_and_is_not_repeated(kit, a_pool):
    refusal = encode_response(Response.error("not-found", "/a.md not found"))
    server = await kit.listener(answer=lambda data: (refusal,))
    response = await MarkClient(a_pool(server.listener.address)).fetch("/a.md")
    assert response.status == "not-found"
    assert len(server.requests) == 1


async def test_c_32_a_failed_stream_keeps_the_connection_for_the_others(kit, a_pool, until):
    server = await kit.listener(answer=lambda data: None)
    pool = a_pool(server.listener.address)
    one, two = (asyncio.create_task(pool.exchange(data, timeout=20)) for data in (b"one", b"two"))
    await until("both requests", lambda: len(server.requests) == 2)
    first, second = sorted(server.of("request"), key=lambda call: call[2])
    server.listener.reset(*first[:2])
    with pytest.raises(Unanswered):
        await one
    server.listener.send(*second[:2], b"answer")
    assert await two == b"answer"
    server.answer = lambda data: (b"ok",)
    assert await pool.exchange(b"three", timeout=20) == b"ok"
    assert len(server.of("opened")) == 1


async def test_c_32_a_dead_connection_is_replaced(kit, a_pool, until):
    server = await kit.listener()
    pool = a_pool(server.listener.address)
    assert await pool.exchange(b"one", timeout=20) == b"echo one"
    server.listener.disconnect(server.of("opened")[0][0])
    await until("the pool to notice", lambda: not any(connection.usable for connection in pool._connections))
    assert await pool.exchange(b"two", timeout=20) == b"echo two"
    assert len(server.of("opened")) == 2


async def test_a_restarted_server_is_found_again(kit, a_pool):
    server = await kit.listener(answer=lambda data: (OK,))
    client = MarkClient(a_pool(server.listener.address))
    await client.fetch("/tea.md")
    await server.listener.close(grace=0)
    again = await kit.listener(answer=lambda data: (OK,), port=server.listener.address.port)
    assert (await client.publish("/tea.md", b"x")).status == "ok"
    assert len(again.requests) == 1


async def test_a_read_is_tried_again_after_a_failure(kit, a_pool):
    answers = iter([(), (b"---\nstatus", b": broken"), (OK,)])
    server = await kit.listener(answer=lambda data: next(answers))
    response = await MarkClient(a_pool(server.listener.address)).fetch("/tea.md")
    assert response.status == "ok"
    assert len(server.requests) == 3


async def test_a_22_c_49_an_empty_answer_is_a_failure_in_the_end(kit, a_pool):
    server = await kit.listener(answer=lambda data: ())
    with pytest.raises(Unreachable, match=r"FETCH /tea\.md: the server sent no status"):
        await MarkClient(a_pool(server.listener.address)).fetch("/tea.md")
    assert len(server.requests) == ATTEMPTS


@pytest.mark.parametrize("verb", [Verb.PUBLISH, Verb.APPEND, Verb.ARCHIVE])
@pytest.mark.parametrize("failure", ["reset", "disconnect", "empty", "garbage"])
async def test_a_write_that_has_left_is_never_sent_again(kit, a_pool, until, verb, failure):
    answers = {"empty": (), "garbage": (b"---\nopen block",)}
    server = await kit.listener(answer=lambda data: answers.get(failure))
    client = MarkClient(a_pool(server.listener.address))
    write = asyncio.create_task(client.request(Request(verb, "/tea.md", {"expected-version": "1"}, b"x")))
    await until("the request", lambda: server.requests)
    conn, stream, _ = server.of("request")[0]
    if failure == "reset":
        server.listener.reset(conn, stream)
    elif failure == "disconnect":
        server.listener.disconnect(conn)
    with pytest.raises(OutcomeUnknown, match=rf"{verb} /tea\.md: outcome unknown"):
        await write
    assert len(server.requests) == 1


async def test_a_write_that_has_not_left_is_sent_once_the_server_is_there(kit, a_pool, udp_socket):
    port = udp_socket.getsockname()[1]
    udp_socket.close()
    client = MarkClient(a_pool(("127.0.0.1", port)))
    write = asyncio.create_task(client.publish("/tea.md", b"x"))
    await asyncio.sleep(0)
    server = await kit.listener(answer=lambda data: (OK,), port=port)
    assert (await write).status == "ok"
    assert len(server.requests) == 1


async def test_a_server_that_is_not_there_is_unreachable_for_reads_and_writes(a_pool, udp_socket):
    port = udp_socket.getsockname()[1]
    udp_socket.close()
    client = MarkClient(a_pool(("127.0.0.1", port)))
    with pytest.raises(Unreachable, match="nothing listens there"):
        await client.fetch("/tea.md")
    with pytest.raises(Unreachable, match="nothing listens there"):
        await client.publish("/tea.md", b"x")


async def test_an_untrusted_server_is_not_tried_again(kit, a_pool):
    server = await kit.listener()
    with pytest.raises(Unreachable, match="the certificate is not trusted"):
        await MarkClient(a_pool(server.listener.address, trust=Trust())).fetch("/tea.md")
    assert server.of("opened") == []


async def test_errors_hold_no_credential(a_pool, udp_socket):
    port = udp_socket.getsockname()[1]
    udp_socket.close()
    with pytest.raises(Unreachable) as caught:
        await MarkClient(a_pool(("127.0.0.1", port)), auth="s3cret").publish("/tea.md", b"x")
    assert "s3cret" not in repr(caught.value)
    assert "s3cret" not in repr(caught.value.__cause__)


async def test_a_path_that_cannot_be_sent_is_an_error_before_anything_is(kit, a_pool):
    server = await kit.listener()
    with pytest.raises(ValueError, match="path"):
        await MarkClient(a_pool(server.listener.address)).fetch("no slash")
    assert server.of("opened") == []


async def test_c_35_an_evicted_connection_stays_open_until_its_last_request(kit, a_pool, until):
    old = await kit.listener(answer=lambda data: None)
    new = await kit.listener()
    pool = a_pool(old.listener.address)
    running = asyncio.create_task(pool.exchange(b"running", timeout=20))
    await until("the request", lambda: old.requests)
    pool.retarget([new.listener.address])
    assert await pool.exchange(b"hello", timeout=20) == b"echo hello"
    assert old.listener.stats().open == 1
    conn, stream, _ = old.of("request")[0]
    old.listener.send(conn, stream, b"done")
    assert await running == b"done"
    await until("the old connection's end", lambda: old.of("closed"))


async def test_an_address_that_does_not_answer_leaves_the_next_one(kit, a_pool, udp_socket):
    server = await kit.listener(answer=lambda data: (OK,))
    nobody = udp_socket.getsockname()
    udp_socket.close()
    client = MarkClient(a_pool(nobody, server.listener.address))
    assert (await client.fetch("/tea.md")).status == "ok"


async def test_many_requests_wait_for_their_turn(kit, a_pool):
    server = await kit.listener(max_streams=3)
    pool = a_pool(server.listener.address, size=2, streams=4)
    answers = await asyncio.gather(*(pool.exchange(b"%d" % i, timeout=30) for i in range(60)))
    assert answers == [b"echo %d" % i for i in range(60)]
    assert len(server.of("opened")) <= 2


async def test_a_full_pool_sends_nothing_after_the_deadline(kit, a_pool, until):
    server = await kit.listener(answer=lambda data: None)
    pool = a_pool(server.listener.address, size=1, streams=1)
    running = asyncio.create_task(pool.exchange(b"running", timeout=20))
    await until("the request", lambda: server.requests)
    with pytest.raises(NotSent, match=r"no connection within 0\.1 s"):
        await pool.exchange(b"too many", timeout=0.1)
    assert server.requests == [b"running"]
    running.cancel()


async def test_a_closed_pool_sends_nothing(kit, a_pool):
    server = await kit.listener()
    pool = a_pool(server.listener.address)
    await pool.exchange(b"hello", timeout=20)
    await pool.close()
    with pytest.raises(NotSent, match="the pool is closed"):
        await pool.exchange(b"hello", timeout=20)


async def test_pooled_connections_outlive_the_servers_idle_timeout(kit, a_pool, until):
    server = await kit.listener(idle_timeout=2.0)
    pool = a_pool(server.listener.address, limits=Limits(keep_alive=0.2))
    await pool.exchange(b"one", timeout=20)
    quiet = await kit.dial(server.listener.address)
    await until("the idle timeout of one that keeps quiet", lambda: quiet.closed)
    await pool.exchange(b"two", timeout=20)
    assert len(server.of("opened")) == 2


def a_document(*versions: tuple[dict[str, str], bytes], archived: bool = False):
    """An answer function: FETCH of a version or the document; everything else is left without a response."""

    def answer(data: bytes) -> tuple[bytes, ...]:
        request = parse_request(data)
        if request.verb is not Verb.FETCH:
            return ()
        number = int(request.path.rpartition("/v")[2]) if "/v" in request.path else len(versions)
        if archived and "/v" not in request.path:
            response = Response.error("archived", "archived")
        elif 1 <= number <= len(versions):
            response = Response("ok", *versions[number - 1])
        else:
            response = Response.error("not-found", "not found")
        return (encode_response(response),)

    return answer


FIRST = ({"title": "Tea"}, b"# Tea")


@pytest.mark.parametrize(
    ("write", "there", "done"),
    [
        (Request(Verb.PUBLISH, "/tea.md", {"expected-version": "0", "title": "Tea"}, b"# Tea"), [FIRST], True),
        (Request(Verb.PUBLISH, "/tea.md", {"expected-version": "0"}, b"# Tea"), [FIRST], True),
        (Request(Verb.PUBLISH, "/tea.md", {"expected-version": "0", "title": "Mate"}, b"# Tea"), [FIRST], False),
        (Request(Verb.PUBLISH, "/tea.md", {"expected-version": "0"}, b"# Mate"), [FIRST], False),
        (Request(Verb.PUBLISH, "/tea.md", {"expected-version": "1"}, b"# Tea"), [FIRST], False),
        (
            Request(Verb.PUBLISH, "/tea.md", {"expected-version": "0", "tags": "a, b"}, b"x"),
            [({"tags": "a,b"}, b"x")],
            True,
        ),
        (Request(Verb.PUBLISH, "/tea.md", {}, b"# Tea"), [FIRST], None),
        (Request(Verb.PUBLISH, "/tea.md", {"expected-version": "0"}), [FIRST], None),
        (Request(Verb.APPEND, "/tea.md", {"expected-version": "1"}, b"more"), [FIRST, ({}, b"# Tea\nmore")], True),
        (Request(Verb.APPEND, "/tea.md", {"expected-version": "1"}, b"more"), [FIRST, ({}, b"# Teamore")], False),
        (Request(Verb.APPEND, "/tea.md", {"expected-version": "1"}, b"more"), [FIRST], False),
        (Request(Verb.ARCHIVE, "/tea.md"), [FIRST], False),
    ],
)
async def test_c_34_a_lost_write_is_settled_by_looking(kit, a_pool, write, there, done):
    server = await kit.listener(answer=a_document(*there))
    assert await settle(MarkClient(a_pool(server.listener.address), auth="secret"), write) is done
    assert all(parse_request(data).metadata["auth"] == "secret" for data in server.requests)


async def test_a_lost_archive_is_settled_by_looking(kit, a_pool):
    server = await kit.listener(answer=a_document(FIRST, archived=True))
    assert await settle(MarkClient(a_pool(server.listener.address)), Request(Verb.ARCHIVE, "/tea.md")) is True


async def test_what_may_not_be_read_can_not_be_settled(kit, a_pool):
    refusal = encode_response(Response.error("unauthorized", "authentication required"))
    server = await kit.listener(answer=lambda data: (refusal,))
    write = Request(Verb.PUBLISH, "/tea.md", {"expected-version": "0"}, b"x")
    assert await settle(MarkClient(a_pool(server.listener.address)), write) is None
