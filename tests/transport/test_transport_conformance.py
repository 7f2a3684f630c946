"""What every engine behind the transport port has to do, over real sockets on loopback."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime

import pytest

from mark_protocol import transport
from mark_protocol.transport.certificates import self_signed
from mark_protocol.transport.port import FailureReason, NotSent, TransportError

pytestmark = pytest.mark.usefixtures("engine")

MIB = 1 << 20


async def test_a_request_is_handed_over_whole(kit, until):
    server = await kit.listener()
    peer = await kit.peer(server.listener.address)
    stream = peer.send(b"one ", fin=False)
    await peer.acknowledged(stream)
    assert server.requests == []
    peer.send(b"two", stream=stream)
    assert await peer.answer(stream) == b"echo one two"
    assert server.requests == [b"one two"]


async def test_a_connection_is_announced_with_peer_and_server_name(kit, until):
    server = await kit.listener()
    peer = await kit.peer(server.listener.address)
    await until("the announcement", lambda: server.of("opened"))
    ((conn, address, server_name),) = server.of("opened")
    assert conn > 0
    assert address == peer._transport.get_extra_info("sockname")[:2]
    assert server_name == "localhost"


async def test_a_later_request_is_answered_first(kit, until):
    server = await kit.listener(answer=lambda data: None if data == b"slow" else (b"done",))
    peer = await kit.peer(server.listener.address)
    slow, quick = peer.send(b"slow"), peer.send(b"quick")
    assert await peer.answer(quick) == b"done"
    assert slow not in peer.finished
    conn, stream, _ = server.of("request")[0]
    server.listener.send(conn, stream, b"at ", b"last")
    server.listener.flush()
    assert await peer.answer(slow) == b"at last"


async def test_large_requests_and_answers_pass_whole_and_in_parallel(kit):
    body = random.Random(1).randbytes(MIB)
    server = await kit.listener(answer=lambda data: (b"head", body) if data == b"get" else (data[-8:],))
    connection = await kit.dial(server.listener.address)
    sent = connection.exchange(body, timeout=30)
    got = await asyncio.gather(sent, *(connection.exchange(b"get", timeout=30) for _ in range(3)))
    assert got == [body[-8:]] + [b"head" + body] * 3
    assert body in server.requests


async def test_an_empty_answer_is_an_empty_stream(kit):
    server = await kit.listener(answer=lambda data: ())
    connection = await kit.dial(server.listener.address)
    assert await connection.exchange(b"hello", timeout=10) == b""


async def test_a_request_reset_half_way_is_never_seen_and_gives_its_stream_back(kit, until):
    server = await kit.listener(max_streams=10)
    peer = await kit.peer(server.listener.address)
    for _ in range(60):  # six times the stream limit
        await until(
            "room for a stream",
            lambda: peer.quic.get_next_available_stream_id() // 4 < peer.quic._remote_max_streams_bidi,
        )
        stream = peer.send(b"half a req", fin=False)
        peer.cancel(stream)
        await until("the server's half to end", lambda s=stream: s in peer.resets)
    assert await peer.answer(peer.send(b"fine")) == b"echo fine"
    assert server.requests == [b"fine"]
    assert server.listener.stats().resets == 60


async def test_stop_sending_ends_an_answer_and_only_that(kit, until):
    body = bytes(8 * MIB)
    server = await kit.listener(answer=lambda data: (body,) if data == b"big" else (b"ok",))
    peer = await kit.peer(server.listener.address, max_stream_data=MIB)
    big = peer.send(b"big")
    await until("some of the answer", lambda: peer.answers.get(big))
    peer.stop(big)
    await until("the handler to hear of it", lambda: server.of("stopped"))
    await until("the reset", lambda: big in peer.resets)
    assert server.listener.send(*server.of("stopped")[0], b"more") == -1
    assert await peer.answer(peer.send(b"small")) == b"ok"
    assert server.listener.stats().stops == 1


async def test_a_request_without_end_times_out_and_is_answered(kit):
    server = await kit.listener(request_timeout=1.0)
    peer = await kit.peer(server.listener.address)
    assert await peer.answer(peer.send(b"FETCH /", fin=False)) == b"failed: timeout"
    assert [call[2] for call in server.of("failed")] == [FailureReason.TIMEOUT]
    assert server.requests == []
    assert await peer.answer(peer.send(b"fine")) == b"echo fine"


async def test_a_request_above_the_limit_is_cut_off_and_answered(kit, until):
    server = await kit.listener(max_request=100_000)
    peer = await kit.peer(server.listener.address)
    stream = peer.send(bytes(2_000_000))
    assert await peer.answer(stream) == b"failed: oversize"
    await until("STOP_SENDING", lambda: stream in peer.stops)
    assert await peer.answer(peer.send(bytes(100_000))) == b"echo " + bytes(100_000)
    assert server.listener.stats().oversize == 1


async def test_unfinished_requests_of_a_connection_share_a_budget(kit):
    server = await kit.listener(assembly_budget=100_000)
    peer = await kit.peer(server.listener.address)
    first = peer.send(bytes(80_000), fin=False)
    await peer.acknowledged(first)
    assert await peer.answer(peer.send(bytes(30_000), fin=False)) == b"failed: oversize"
    peer.send(b"", stream=first)
    assert len(await peer.answer(first)) == 80_005


async def test_unfinished_requests_of_all_connections_share_a_budget_and_the_oldest_gives_way(kit):
    server = await kit.listener(process_assembly_budget=100_000)
    stalled, other = await kit.peer(server.listener.address), await kit.peer(server.listener.address)
    old = stalled.send(bytes(80_000), fin=False)
    await stalled.acknowledged(old)
    new = other.send(bytes(30_000), fin=False)
    assert await stalled.answer(old) == b"failed: oversize"
    other.send(b"", stream=new)
    assert len(await other.answer(new)) == 30_005


async def test_streams_above_the_limit_wait_for_a_free_one(kit, until):
    server = await kit.listener(answer=lambda data: None, max_streams=3)
    peer = await kit.peer(server.listener.address)
    streams = [peer.send(b"request %d" % i) for i in range(5)]
    await until("three requests", lambda: len(server.requests) == 3)
    peer.quic.send_ping(1)
    peer.transmit()
    await until("everything sent to be acknowledged", lambda: not peer.quic._loss.spaces[2].sent_packets)
    assert len(server.requests) == 3
    for _ in range(2):
        conn, stream, _ = server.of("request")[_]
        server.listener.send(conn, stream, b"done")
    await until("the waiting two", lambda: len(server.requests) == 5)
    assert [await peer.answer(stream) for stream in streams[:2]] == [b"done"] * 2


async def test_a_peer_that_ignores_the_stream_limit_is_closed_alone(kit, until):
    server = await kit.listener(answer=lambda data: None, max_streams=3)
    peer, other = await kit.peer(server.listener.address), await kit.peer(server.listener.address)
    peer.quic._remote_max_streams_bidi = 100
    for _ in range(4):
        peer.send(b"request")
    await until("the rude connection's end", lambda: peer.end)
    assert peer.end.error_code == 0x4  # STREAM_LIMIT_ERROR
    other.send(b"still there")
    await until("the other's request", lambda: b"still there" in server.requests)


@pytest.mark.parametrize("alpn", [["h3"], []])
async def test_another_application_protocol_is_refused(kit, until, alpn):
    server = await kit.listener()
    peer = await kit.peer(server.listener.address, alpn=alpn, ready=False)
    await until("the refusal", lambda: peer.end)
    assert peer.end.error_code == 0x178  # no_application_protocol
    assert server.calls == []
    await until("no half-open handshake", lambda: server.listener.stats().handshaking == 0)


async def test_mark_among_other_protocols_is_chosen(kit):
    server = await kit.listener()
    peer = await kit.peer(server.listener.address, alpn=["h3", "mark"])
    assert await peer.answer(peer.send(b"hello")) == b"echo hello"


async def test_garbage_datagrams_disturb_nobody(kit, udp_socket, until):
    server = await kit.listener()
    peer = await kit.peer(server.listener.address)
    chance = random.Random(2)
    for count in range(2000):
        datagram = bytearray(chance.randbytes(chance.choice([0, 1, 7, 20, 200, 1199, 1200, 1400, 9000])))
        if count % 4 == 0 and len(datagram) > 6:
            datagram[:6] = bytes([0xC0 | chance.randrange(64)]) + b"\0\0\0\1" + bytes([chance.randrange(21)])
        udp_socket.sendto(datagram, server.listener.address)
        if count % 100 == 0:
            assert await peer.answer(peer.send(b"%d" % count)) == b"echo %d" % count
    assert await peer.answer(peer.send(b"end")) == b"echo end"
    stats = server.listener.stats()
    assert (stats.open, stats.panics) == (1, 0)
    assert stats.dropped > 0
    await until("no half-open handshake", lambda: server.listener.stats().handshaking == 0)


async def test_mutated_datagrams_disturb_nobody(kit, udp_socket, until):
    server = await kit.listener(handshake_timeout=2.0)
    line = await kit.line(server.listener.address)
    captured: list[bytes] = []
    relay = line.datagram_received
    line.datagram_received = lambda data, addr: (captured.append(data), relay(data, addr))
    noisy = await kit.peer(line.address)
    for count in range(20):
        await noisy.answer(noisy.send(b"x" * count * 100))
    assert captured
    peer = await kit.peer(server.listener.address)
    chance = random.Random(3)
    for count in range(2000):
        datagram = bytearray(chance.choice(captured))
        match chance.randrange(4):
            case 0:
                for _ in range(chance.randrange(1, 8)):
                    datagram[chance.randrange(len(datagram))] ^= 1 << chance.randrange(8)
            case 1:
                del datagram[chance.randrange(len(datagram)) :]
            case 2:
                datagram += chance.choice(captured)
            case 3:
                place = chance.randrange(len(datagram))
                datagram[place:place] = chance.randbytes(chance.randrange(1, 40))
        udp_socket.sendto(datagram, server.listener.address)
        if count % 100 == 0:
            assert await peer.answer(peer.send(b"%d" % count)) == b"echo %d" % count
    assert await peer.answer(peer.send(b"end")) == b"echo end"
    await until("no half-open handshake", lambda: server.listener.stats().handshaking == 0)


async def test_a_new_certificate_is_used_by_the_next_handshake(kit):
    server = await kit.listener()
    before = await kit.dial(server.listener.address)
    new = self_signed(now=datetime.now(UTC))
    server.listener.reload([new])
    assert await before.exchange(b"old connection", timeout=10) == b"echo old connection"
    with pytest.raises(transport.port.Untrusted):
        await kit.dial(server.listener.address)
    after = await transport.dial(
        *server.listener.address, server_name="localhost", trust=transport.Trust(roots=new.chain_pem)
    )
    assert await after.exchange(b"hello", timeout=10) == b"echo hello"
    after.close()


async def test_a_broken_new_certificate_changes_nothing(kit, certificate):
    server = await kit.listener()
    other = self_signed(now=datetime.now(UTC))
    mixed = transport.Certificate(name="mixed.pem", chain_pem=certificate.chain_pem, key_pem=other.key_pem)
    with pytest.raises(TransportError, match=r"mixed\.pem: the key does not belong"):
        server.listener.reload([mixed])
    connection = await kit.dial(server.listener.address)
    assert await connection.exchange(b"hello", timeout=10) == b"echo hello"


async def test_the_server_name_chooses_among_certificates(kit, until):
    pear = self_signed(now=datetime.now(UTC), names=["pear.example"])
    server = await kit.listener(certificates=[kit.certificate, pear])
    connection = await transport.dial(
        *server.listener.address, server_name="Pear.example", trust=transport.Trust(roots=pear.chain_pem)
    )
    await until("the announcement", lambda: server.of("opened"))
    assert server.of("opened")[0][2] == "Pear.example"
    connection.close()
    assert await (await kit.dial(server.listener.address)).exchange(b"hello", timeout=10) == b"echo hello"


async def test_a_draining_listener_refuses_the_new_and_serves_the_old(kit, until):
    server = await kit.listener()
    old = await kit.dial(server.listener.address)
    server.listener.drain()
    new = await kit.peer(server.listener.address, ready=False)
    await until("the refusal", lambda: new.end)
    assert new.end.error_code == 0x2  # CONNECTION_REFUSED
    assert await old.exchange(b"still here", timeout=10) == b"echo still here"
    assert server.listener.stats().refused >= 1


async def test_close_waits_for_running_answers_and_says_goodbye(kit, until):
    server = await kit.listener(answer=lambda data: None)
    peer = await kit.peer(server.listener.address)
    running = peer.send(b"running")
    await until("the request", lambda: server.requests)
    closing = asyncio.create_task(server.listener.close())
    await asyncio.sleep(0)
    late = peer.send(b"late")
    assert await peer.answer(late) == b""  # an empty stream, which clients take for a failure
    assert not closing.done()
    conn, stream, _ = server.of("request")[0]
    server.listener.send(conn, stream, b"done")
    assert await peer.answer(running) == b"done"
    await asyncio.wait_for(closing, 10)
    await until("the goodbye", lambda: peer.end)
    assert (peer.end.error_code, peer.end.reason_phrase) == (0, "server closed")
    assert server.requests == [b"running"]
    assert [call[1:] for call in server.of("closed")] == [(0, "server closed")]


async def test_close_ends_after_its_grace(kit, until):
    server = await kit.listener(answer=lambda data: None)
    peer = await kit.peer(server.listener.address)
    peer.send(b"never answered")
    await until("the request", lambda: server.requests)
    await asyncio.wait_for(server.listener.close(grace=0.1), 10)
    await until("the goodbye", lambda: peer.end)


async def test_a_client_whose_port_changes_goes_on(kit):
    server = await kit.listener()
    line = await kit.line(server.listener.address)
    connection = await kit.dial(line.address)
    for count in range(3):
        assert await connection.exchange(b"%d" % count, timeout=10) == b"echo %d" % count
        await line.rebind()
    assert await connection.exchange(b"end", timeout=10) == b"echo end"
    assert len(server.of("opened")) == 1


async def test_connections_of_one_address_are_limited_and_a_closed_one_makes_room(kit, until):
    server = await kit.listener(max_connections_per_ip=2)
    first = await kit.peer(server.listener.address)
    await kit.peer(server.listener.address)
    third = await kit.peer(server.listener.address, ready=False)
    await until("the refusal", lambda: third.end)
    assert third.end.error_code == 0x2
    first.close()
    await until("the first to be gone", lambda: server.listener.stats().open == 1)
    for _ in range(200):  # the closing period of the first one has to pass
        peer = await kit.peer(server.listener.address, ready=False)
        await until("an outcome", lambda peer=peer: peer.ready or peer.end)
        if peer.ready:
            break
    assert peer.ready


async def test_connections_of_the_process_are_limited(kit, until):
    server = await kit.listener(max_connections=1)
    await kit.peer(server.listener.address)
    second = await kit.peer(server.listener.address, ready=False)
    await until("the refusal", lambda: second.end)
    assert second.end.error_code == 0x2


async def test_above_the_threshold_a_client_first_proves_its_address(kit):
    server = await kit.listener(retry_above=0)
    connection = await kit.dial(server.listener.address)
    assert await connection.exchange(b"hello", timeout=10) == b"echo hello"
    assert server.listener.stats().retries >= 1


async def test_a_token_that_proves_nothing_is_no_offence_without_pressure(kit, until):
    calm = await kit.listener()
    peer = await kit.peer(calm.listener.address, token=b"a token of another server")
    assert await peer.answer(peer.send(b"hello")) == b"echo hello"
    pressed = await kit.listener(retry_above=0)
    peer = await kit.peer(pressed.listener.address, token=b"a token of another server", ready=False)
    await until("the refusal", lambda: peer.end)
    assert peer.end.error_code == 0xB  # INVALID_TOKEN


async def test_half_open_handshakes_are_dropped_in_time(kit, udp_socket, until):
    server = await kit.listener(handshake_timeout=1.0)
    line = await kit.line(server.listener.address)
    first: list[bytes] = []
    line.datagram_received = lambda data, addr: first.append(data)
    await kit.peer(line.address, ready=False)
    await until("a client's first datagram", lambda: first)
    udp_socket.sendto(first[0], server.listener.address)
    await until("a half-open handshake", lambda: server.listener.stats().handshaking == 1)
    await until("it to be dropped", lambda: server.listener.stats().handshaking == 0)
    assert server.calls == []


async def test_c_50_an_answer_that_nobody_takes_is_given_up(kit, until):
    server = await kit.listener(
        answer=lambda data: (bytes(8 * MIB),) if data == b"big" else (b"ok",), request_timeout=1.0
    )
    peer = await kit.peer(server.listener.address, max_stream_data=10_000)
    peer.quic._write_stream_limits = lambda builder, space, stream: None  # a window that never opens again
    big = peer.send(b"big")
    await until("the handler to hear of it", lambda: server.of("stopped"))
    await until("the reset", lambda: big in peer.resets)
    assert len(peer.answers[big]) == 10_000
    assert server.listener.stats().timeouts == 1
    assert await peer.answer(peer.send(b"small")) == b"ok"


async def test_an_answer_in_parts_tells_when_there_is_room_again(kit, until):
    server = await kit.listener(answer=lambda data: None, stream_window=100_000)
    peer = await kit.peer(server.listener.address)
    stream = peer.send(b"watch")
    await until("the request", lambda: server.requests)
    conn, server_stream, _ = server.of("request")[0]
    queued = server.listener.send(conn, server_stream, bytes(400_000), fin=False)
    assert queued == 400_000
    await until("room", lambda: server.of("writable"))
    assert server.listener.send(conn, server_stream, b"end") <= 50_003
    assert len(await peer.answer(stream)) == 400_003


async def test_sending_to_what_is_gone_is_no_error(kit, until):
    server = await kit.listener(answer=lambda data: None)
    peer = await kit.peer(server.listener.address)
    peer.send(b"hello")
    await until("the request", lambda: server.requests)
    conn, stream, _ = server.of("request")[0]
    peer.close()
    await until("the end", lambda: server.of("closed"))
    assert server.listener.send(conn, stream, b"too late") == -1
    server.listener.reset(conn, stream)
    server.listener.disconnect(conn)
    server.listener.flush()


async def test_the_handler_can_abandon_an_answer_or_a_connection(kit, until):
    server = await kit.listener(answer=lambda data: None)
    peer = await kit.peer(server.listener.address)
    stream = peer.send(b"hello")
    await until("the request", lambda: server.requests)
    conn, server_stream, _ = server.of("request")[0]
    server.listener.reset(conn, server_stream)
    await until("the reset", lambda: stream in peer.resets)
    server.listener.disconnect(conn, 0, "enough")
    await until("the end", lambda: peer.end)
    assert peer.end.reason_phrase == "enough"


async def test_a_disconnected_connection_hands_over_nothing_more(kit, until):
    server = await kit.listener(answer=lambda data: None)
    server.request = lambda conn, stream, data: (
        server.calls.append(("request", conn, stream, data)),
        server.listener.disconnect(conn),
    )
    peer = await kit.peer(server.listener.address)
    for count in range(5):  # in one datagram
        peer.quic.send_stream_data(4 * count, b"%d" % count, end_stream=True)
    peer.transmit()
    await until("the end", lambda: peer.end)
    assert [call[0] for call in server.calls] == ["opened", "request", "closed"]


async def test_a_failing_handler_costs_its_own_connection_only(kit, until):
    def answer(data: bytes) -> tuple[bytes, ...]:
        if data == b"bug":
            raise RuntimeError("a bug in a verb")
        return (b"ok",)

    server = await kit.listener(answer=answer)
    peer, other = await kit.peer(server.listener.address), await kit.peer(server.listener.address)
    peer.send(b"bug")
    await until("the connection's end", lambda: peer.end)
    assert await other.answer(other.send(b"hello")) == b"ok"
    assert server.listener.stats().panics == 1


async def test_a_quiet_connection_ends_after_the_idle_timeout(kit, until):
    server = await kit.listener(idle_timeout=0.5)
    await kit.peer(server.listener.address)
    await until("the end", lambda: server.of("closed"))
    assert server.listener.stats().open == 0


async def test_no_session_tickets_so_no_early_data(kit):
    tickets: list[object] = []
    server = await kit.listener()
    peer = await kit.peer(server.listener.address, ticket_handler=tickets.append)
    for _ in range(3):
        await peer.answer(peer.send(b"hello"))
    assert tickets == []


async def test_a_taken_port_is_an_error_that_names_it(kit):
    server = await kit.listener()
    with pytest.raises(TransportError, match=f"UDP 127.0.0.1:{server.listener.address.port}: Address already in use"):
        await kit.listener(port=server.listener.address.port)


async def test_ipv4_clients_reach_a_listener_on_all_addresses(kit):
    server = await kit.listener(host="::")
    connection = await kit.dial(transport.port.Address("127.0.0.1", server.listener.address.port))
    assert await connection.exchange(b"hello", timeout=10) == b"echo hello"
    assert server.of("opened")[0][1].host == "127.0.0.1"


async def test_an_engine_that_is_not_there_is_an_error(kit, monkeypatch):
    monkeypatch.setenv("MARK_ENGINE", "native")
    with pytest.raises(TransportError, match="MARK_ENGINE=native: no native engine is installed"):
        await kit.listener()
    monkeypatch.setenv("MARK_ENGINE", "quick")
    with pytest.raises(TransportError, match="MARK_ENGINE=quick: expected auto, native or portable"):
        await kit.listener()


async def test_a_closed_listener_hears_nothing(kit):
    server = await kit.listener()
    await server.listener.close(grace=0)
    with pytest.raises(NotSent):
        await kit.dial(server.listener.address, timeout=0.5)
