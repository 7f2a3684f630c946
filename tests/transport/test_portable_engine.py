"""What the engine on aioquic has to do beyond the port: bounded memory, nothing left behind, quiet logs."""

from __future__ import annotations

import asyncio
import logging
import random
from datetime import UTC, datetime

import pytest

from mark_protocol.transport.certificates import parse, self_signed
from mark_protocol.transport.portable import packets, udp
from mark_protocol.transport.portable.resets import Resets

MIB = 1 << 20


async def test_finished_streams_leave_nothing_behind(kit, until):
    server = await kit.listener()
    peer = await kit.peer(server.listener.address)
    connection = await kit.dial(server.listener.address)
    for _ in range(50):
        await asyncio.gather(*(connection.exchange(b"x" * 3000, timeout=20) for _ in range(10)))
        stream = peer.send(b"half", fin=False)
        peer.cancel(stream)
        await until("the reset", lambda s=stream: s in peer.resets)
    peers_of_server = list(server.listener._connections.values())
    await until("all streams to be forgotten", lambda: not any(c._streams for c in peers_of_server))
    await until("the engine to forget them too", lambda: not any(c.quic._streams for c in peers_of_server))
    assert server.listener._shared.assembling == 0
    assert not connection._exchanges
    assert not connection._waiting


async def test_closed_connections_leave_nothing_behind(kit, until):
    server = await kit.listener()
    for _ in range(5):
        connection = await kit.dial(server.listener.address)
        await connection.exchange(b"hello", timeout=10)
        connection.close()
    listener = server.listener
    await until("all connections to be forgotten", lambda: not listener._connections)
    assert not listener._routes
    assert not listener._timers
    assert not listener._handshaking
    assert not listener._per_ip
    assert len(server.of("closed")) == 5


async def test_unreadable_first_packets_are_not_remembered(kit, udp_socket, until):
    server = await kit.listener()
    header = b"\xc0\0\0\0\1\x08" + bytes(8) + b"\x08" + bytes(8) + b"\0\x44\x96"
    for _ in range(100):
        udp_socket.sendto(header + random.Random(4).randbytes(1200), server.listener.address)
    await until("all to be read", lambda: server.listener.stats().dropped == 100)
    assert not server.listener._connections
    assert not server.listener._routes


async def test_another_quic_version_is_told_which_ones_there_are(kit, udp_socket, until):
    server = await kit.listener()

    def first(version: int, size: int = 1200) -> bytes:
        return (b"\xc0" + version.to_bytes(4, "big") + b"\x04them\x02us").ljust(size, b"\xff")

    for unanswered in (first(0), first(0x0A0A0A0A, 1199), first(1)):
        udp_socket.sendto(unanswered, server.listener.address)
    udp_socket.sendto(first(0x0A0A0A0A), server.listener.address)
    await until("all to be read", lambda: server.listener.stats().dropped == 4)
    reply = udp_socket.recv(2000)
    assert reply[0] & 0x80
    assert reply[1:14] == b"\0\0\0\0" + b"\x02us" + b"\x04them" + b"\0"  # version 0, and the IDs turned round
    assert b"\0\0\0\1" in reply[13:]
    with pytest.raises(BlockingIOError):
        udp_socket.recv(2000)


async def test_answers_wait_outside_the_engine_and_are_not_copied(kit, until):
    body = bytes(4 * MIB)
    server = await kit.listener(answer=lambda data: (b"head", body), send_budget=300_000, stream_window=200_000)
    peer = await kit.peer(server.listener.address, max_stream_data=10_000)
    peer.quic._write_stream_limits = lambda builder, space, stream: None
    for _ in range(5):
        peer.send(b"get")
    await until("all requests", lambda: len(server.requests) == 5)
    (connection,) = server.listener._connections.values()
    held = sum(len(stream.sender._buffer) for stream in connection.quic._streams.values())
    assert held <= 300_000
    waiting = [piece for stream in connection._streams.values() for piece in stream.pieces if len(piece) > 4]
    assert len(waiting) == 5
    assert all(piece.obj is body for piece in waiting)


async def test_a_request_without_its_first_byte_is_held_to_one_window(kit, until):
    server = await kit.listener(stream_window=100_000, connection_window=500_000)
    peer = await kit.peer(server.listener.address)
    stream = peer.quic.get_next_available_stream_id()
    peer.quic.send_stream_data(stream, bytes(MIB), end_stream=True)
    sender = peer.quic._streams[stream].sender
    sender._pending.subtract(0, 1)
    peer.transmit()
    (connection,) = server.listener._connections.values()
    await until("a full window", lambda: sender.highest_offset == 100_000)
    for _ in range(3):
        peer.quic.send_ping(1)
        peer.transmit()
        await until("an acknowledgement", lambda: not peer.quic._loss.spaces[2].sent_packets)
    assert sender.highest_offset == 100_000
    assert len(connection.quic._streams[stream].receiver._buffer) == 100_000


async def test_windows_slide_over_many_requests(kit):
    server = await kit.listener(
        stream_window=50_000, connection_window=100_000, answer=lambda data: (b"%d" % len(data),)
    )
    connection = await kit.dial(server.listener.address)
    for _ in range(10):
        assert await connection.exchange(bytes(300_000), timeout=20) == b"300000"
    (accepted,) = server.listener._connections.values()
    granted = accepted.quic._local_max_data
    assert granted.value - granted.used <= 100_000


async def test_a_refused_handshake_is_one_log_line_without_a_trace(kit, until, caplog):
    caplog.set_level(logging.INFO)
    server = await kit.listener()
    for _ in range(3):
        peer = await kit.peer(server.listener.address, alpn=["h3"], ready=False)
        await until("the refusal", lambda p=peer: p.end)
    ours = [r for r in caplog.records if r.name.startswith("mark_protocol")]
    assert [r.getMessage() for r in ours] == [
        "handshake failed: No common ALPN protocols (from 127.0.0.1; more of the kind is counted only)"
    ]
    assert not any(r.exc_info for r in caplog.records)


async def test_an_engine_failure_costs_its_own_connection_only(kit, until, monkeypatch):
    server = await kit.listener()
    rude, other = await kit.peer(server.listener.address), await kit.peer(server.listener.address)
    await until("both", lambda: len(server.of("opened")) == 2)
    first, _ = server.listener._connections.values()

    def broken(*args: object) -> None:
        raise IndexError("pop from empty list")

    monkeypatch.setattr(first.quic, "receive_datagram", broken)
    rude.send(b"hello")
    await until("the connection to be dropped", lambda: server.of("closed"))
    assert await other.answer(other.send(b"hello")) == b"echo hello"
    assert server.listener.stats().panics == 1


@pytest.mark.parametrize(
    ("datagram", "destination"),
    [
        (b"", None),
        (b"\x40", None),
        (b"\x40" + b"12345678", b"12345678"),
        (b"\x00" + b"12345678", None),
        (b"\xc0\0\0\0\1\x02ab\x00", b"ab"),
        (b"\xc0\0\0\0\1\xff", None),
    ],
)
def test_the_destination_of_a_datagram(datagram, destination):
    assert packets.destination(datagram) == destination


def test_an_ipv4_peer_of_a_dual_stack_socket_shows_as_ipv4():
    assert udp.address_of(("::ffff:10.0.0.1", 5, 0, 0)).host == "10.0.0.1"
    assert udp.address_of(("2001:db8::1", 5, 0, 0)).host == "2001:db8::1"


def test_a_reset_is_shorter_than_what_it_answers_and_known_by_its_token():
    key = parse(self_signed(now=datetime.now(UTC))).key
    resets, again, elsewhere = Resets(key, "a-0"), Resets(key, "a-0"), Resets(key, "a-1")
    for size in (22, 30, 44, 1200):
        reset = resets.reply_to(b"\x40" + bytes(size - 1), b"12345678", 0.0)
        assert 21 <= len(reset) < size
        assert len(reset) <= 43
        assert reset[0] & 0xC0 == 0x40
        assert reset.endswith(again.token(b"12345678"))
        assert not reset.endswith(elsewhere.token(b"12345678"))
    assert resets.reply_to(b"\x40" + bytes(20), b"12345678", 0.0) is None  # too short to be answered by less
    assert resets.reply_to(b"\xc0" + bytes(40), b"12345678", 0.0) is None
    assert resets.reply_to(b"\x00" + bytes(40), b"12345678", 0.0) is None


def test_resets_are_limited():
    resets = Resets(parse(self_signed(now=datetime.now(UTC))).key, "a-0")
    answered = [resets.reply_to(b"\x40" + bytes(40), b"12345678", 5.0) for _ in range(300)]
    assert sum(reset is not None for reset in answered) == 100
    assert resets.reply_to(b"\x40" + bytes(40), b"12345678", 5.1) is not None


async def test_what_is_no_reset_for_this_connection_is_none(kit):
    server = await kit.listener()
    connection = await kit.dial(server.listener.address)
    quic = connection._quic
    token = quic._peer_cid.stateless_reset_token
    assert quic.is_reset(b"\x41" + bytes(20) + token)
    assert not quic.is_reset(b"\x41" + bytes(3) + token)
    assert not quic.is_reset(b"\xc1" + bytes(20) + token)
    assert not quic.is_reset(b"\x41" + bytes(20) + bytes(16))
    assert not quic.is_reset(b"\x41" + quic.host_cid + bytes(20) + token)
