"""Dialed connections: whom they trust, how they fail, and what a failure says about the request."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import NameOID

from mark_protocol import transport
from mark_protocol.transport.certificates import load, self_signed
from mark_protocol.transport.port import Certificate, NotSent, TransportError, Trust, Unanswered, Untrusted
from mark_protocol.transport.portable import dialed


def a_certificate(*, names=("localhost",), issuer=None, key=None, start=timedelta(minutes=-5), life=timedelta(hours=1)):
    """(Certificate, key, x509) signed by `issuer` = (key, x509), or by itself."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    signer, parent = issuer or (key, None)
    begin = datetime.now(UTC) + start
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(parent.subject if parent else subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin + life)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    digest = None if isinstance(signer, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    leaf = builder.sign(signer, digest)
    pem = Certificate(
        name="test",
        chain_pem=leaf.public_bytes(serialization.Encoding.PEM),
        key_pem=key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )
    return pem, key, leaf


async def test_a_certificate_under_the_given_root_is_accepted(kit):
    root, root_key, root_cert = a_certificate(names=("a root",))
    leaf, _, _ = a_certificate(names=("notes.demo.svc",), issuer=(root_key, root_cert))
    server = await kit.listener(certificates=[leaf])
    connection = await transport.dial(
        *server.listener.address, server_name="notes.demo.svc", trust=Trust(roots=root.chain_pem)
    )
    assert await connection.exchange(b"hello", timeout=10) == b"echo hello"
    connection.close()


async def test_another_root_is_refused(kit):
    other, _, _ = a_certificate(names=("another root",))
    server = await kit.listener()
    with pytest.raises(Untrusted, match="the certificate is not trusted"):
        await transport.dial(*server.listener.address, server_name="localhost", trust=Trust(roots=other.chain_pem))
    assert server.of("opened") == []


async def test_another_name_is_refused_whatever_the_address(kit):
    server = await kit.listener()
    with pytest.raises(Untrusted, match=r"hostname 'other\.svc' doesn't match"):
        await kit.dial(server.listener.address, server_name="other.svc")


async def test_the_public_roots_do_not_vouch_for_a_private_world(kit):
    server = await kit.listener()
    with pytest.raises(Untrusted, match="self-signed certificate"):
        await transport.dial(*server.listener.address, server_name="localhost", trust=Trust())


async def test_an_expired_certificate_is_refused(kit):
    expired, _, _ = a_certificate(start=timedelta(hours=-2), life=timedelta(hours=1))
    server = await kit.listener(certificates=[expired])
    with pytest.raises(Untrusted, match="no longer valid"):
        await transport.dial(*server.listener.address, server_name="localhost", trust=Trust(roots=expired.chain_pem))


async def test_insecure_takes_any_certificate(kit):
    server = await kit.listener()
    connection = await transport.dial(
        *server.listener.address, server_name="anything.example", trust=Trust(insecure=True)
    )
    assert await connection.exchange(b"hello", timeout=10) == b"echo hello"
    connection.close()


async def test_an_ed25519_development_certificate_is_accepted(kit):
    pair, _, _ = a_certificate(key=ed25519.Ed25519PrivateKey.generate())
    server = await kit.listener(certificates=[pair])
    for trust in (Trust(roots=pair.chain_pem), Trust(insecure=True)):
        connection = await transport.dial(*server.listener.address, server_name="localhost", trust=trust)
        assert await connection.exchange(b"hello", timeout=10) == b"echo hello"
        connection.close()


async def test_roots_may_have_comments_and_windows_line_ends(kit, certificate):
    roots = b"# our root\r\n" + certificate.chain_pem.rstrip().replace(b"\n", b"\r\n")
    server = await kit.listener()
    connection = await transport.dial(*server.listener.address, server_name="localhost", trust=Trust(roots=roots))
    connection.close()


async def test_broken_roots_are_an_error_of_their_own(kit):
    server = await kit.listener()
    with pytest.raises(Untrusted, match="roots are not PEM certificates"):
        await transport.dial(*server.listener.address, server_name="localhost", trust=Trust(roots=b"no pem"))


async def test_a_port_where_nothing_listens_fails_at_once(udp_socket):
    port = udp_socket.getsockname()[1]
    udp_socket.close()
    began = time.monotonic()
    with pytest.raises(NotSent, match=f"127.0.0.1:{port}: nothing listens there"):
        await transport.dial("127.0.0.1", port, server_name="localhost", trust=Trust(), timeout=30)
    assert time.monotonic() - began < 15


async def test_a_port_that_never_answers_fails_in_time(udp_socket):
    with pytest.raises(NotSent, match=r"no handshake within 0\.2 s"):
        await transport.dial(*udp_socket.getsockname(), server_name="localhost", trust=Trust(), timeout=0.2)


async def test_a_name_without_address_says_so():
    with pytest.raises(NotSent, match=r"no-such-host\.invalid"):
        await transport.dial("no-such-host.invalid", 6309, server_name="x", trust=Trust())


async def test_localhost_is_tried_on_each_of_its_addresses(kit):
    server = await kit.listener()  # on 127.0.0.1 only, whatever localhost resolves to first
    connection = await transport.dial(
        "localhost", server.listener.address.port, server_name="localhost", trust=Trust(roots=kit.certificate.chain_pem)
    )
    connection.close()


async def test_an_answer_that_does_not_come_costs_its_stream_only(kit, until):
    server = await kit.listener(answer=lambda data: None if data == b"never" else (b"ok",))
    connection = await kit.dial(server.listener.address)
    never = asyncio.create_task(connection.exchange(b"never", timeout=0.3))
    assert await connection.exchange(b"hello", timeout=10) == b"ok"
    with pytest.raises(Unanswered, match=r"no answer within 0\.3 s"):
        await never
    await until("the server to hear of it", lambda: server.of("stopped"))
    assert not connection.closed
    assert await connection.exchange(b"hello", timeout=10) == b"ok"


async def test_a_reset_answer_costs_its_stream_only(kit, until):
    server = await kit.listener(answer=lambda data: None)
    connection = await kit.dial(server.listener.address)
    first = asyncio.create_task(connection.exchange(b"first", timeout=10))
    second = asyncio.create_task(connection.exchange(b"second", timeout=10))
    await until("both requests", lambda: len(server.requests) == 2)
    (conn, one, _), (_, two, _) = server.of("request")
    server.listener.reset(conn, one)
    with pytest.raises(Unanswered, match="the peer reset the stream"):
        await first
    server.listener.send(conn, two, b"answer")
    assert await second == b"answer"
    assert not connection.closed


async def test_an_answer_that_is_too_long_is_not_taken(kit):
    server = await kit.listener(answer=lambda data: (bytes(300_000),))
    connection = await kit.dial(server.listener.address)
    with pytest.raises(Unanswered, match="longer than 200000 bytes"):
        await connection.exchange(b"hello", timeout=10, max_answer=200_000)
    assert len(await connection.exchange(b"hello", timeout=10)) == 300_000


async def test_a_cancelled_exchange_tells_the_server(kit, until):
    server = await kit.listener(answer=lambda data: None)
    connection = await kit.dial(server.listener.address)
    task = asyncio.create_task(connection.exchange(b"hello", timeout=10))
    await until("the request", lambda: server.requests)
    task.cancel()
    await until("the server to hear of it", lambda: server.of("stopped"))
    assert connection.in_flight == 0


async def test_without_a_free_stream_nothing_is_sent(kit, until):
    server = await kit.listener(answer=lambda data: None, max_streams=1)
    connection = await kit.dial(server.listener.address)
    first = asyncio.create_task(connection.exchange(b"first", timeout=10))
    await until("the request", lambda: server.requests)
    with pytest.raises(NotSent, match="no free stream"):
        await connection.exchange(b"second", timeout=0.2)
    waiting = asyncio.create_task(connection.exchange(b"third", timeout=10))
    conn, stream, _ = server.of("request")[0]
    server.listener.send(conn, stream, b"done")
    assert await first == b"done"
    await until("the waiting one", lambda: server.requests == [b"first", b"third"])
    waiting.cancel()


async def test_a_waiting_request_that_gives_up_leaves_its_turn_to_the_next(kit, until):
    server = await kit.listener(answer=lambda data: None, max_streams=1)
    connection = await kit.dial(server.listener.address)
    first = asyncio.create_task(connection.exchange(b"first", timeout=20))
    await until("the request", lambda: server.requests)
    second, third = (asyncio.create_task(connection.exchange(data, timeout=20)) for data in (b"second", b"third"))
    await until("both to wait", lambda: connection.in_flight == 3)
    turn, give = connection._waiting[0], connection._give_turns

    def give_and_cancel() -> None:
        give()
        if turn.done():  # its turn has come, and it has not used it yet
            second.cancel()

    connection._give_turns = give_and_cancel
    conn, stream, _ = server.of("request")[0]
    server.listener.send(conn, stream, b"done")
    assert await first == b"done"
    await until("the third", lambda: server.requests == [b"first", b"third"])
    third.cancel()


async def test_the_end_of_a_connection_ends_its_exchanges_at_once(kit, until):
    server = await kit.listener(answer=lambda data: None, max_streams=1)
    connection = await kit.dial(server.listener.address)
    sent = asyncio.create_task(connection.exchange(b"first", timeout=30))
    await until("the request", lambda: server.requests)
    waiting = asyncio.create_task(connection.exchange(b"second", timeout=30))
    await until("the second to wait", lambda: connection.in_flight == 2)
    await server.listener.close(grace=0)
    with pytest.raises(Unanswered, match="the connection ended: server closed"):
        await sent
    with pytest.raises(NotSent, match="the connection ended: server closed"):
        await waiting
    assert connection.closed
    with pytest.raises(NotSent):
        await connection.exchange(b"third", timeout=1)


async def test_a_server_that_falls_silent_is_noticed_before_the_request_times_out(kit, monkeypatch):
    monkeypatch.setattr(dialed, "SILENCE", 0.5)
    server = await kit.listener()
    line = await kit.line(server.listener.address)
    connection = await kit.dial(line.address)
    line.cut = True
    with pytest.raises(Unanswered, match=r"not been heard of for 0\.5 s"):
        await connection.exchange(b"hello", timeout=30)
    assert connection.closed


async def test_a_server_that_was_started_anew_says_that_it_does_not_know_the_connection(kit, until):
    server = await kit.listener(answer=lambda data: None)
    connection = await kit.dial(server.listener.address)
    before = asyncio.create_task(connection.exchange(b"before", timeout=60))
    await until("the request", lambda: server.requests)
    kill(server.listener)
    again = await kit.listener(port=server.listener.address.port)
    after = asyncio.create_task(connection.exchange(b"after", timeout=60))
    for request in (before, after):
        with pytest.raises(Unanswered, match="started anew"):
            await request
    assert connection.closed
    assert not again.requests


def kill(listener):
    """What is left of a listener when its process is killed: nothing, and no word to anybody."""
    for connection in list(listener._connections.values()):
        listener._forget(connection, "killed")
    listener._end(0, "")


async def test_only_who_has_the_key_can_end_a_connection_it_does_not_know(kit, until, monkeypatch):
    monkeypatch.setattr(dialed, "SILENCE", 1.0)
    server = await kit.listener(answer=lambda data: None)
    connection = await kit.dial(server.listener.address)
    request = asyncio.create_task(connection.exchange(b"hello", timeout=60))
    await until("the request", lambda: server.requests)
    kill(server.listener)
    other = self_signed(now=datetime.now(UTC))
    await kit.listener(port=server.listener.address.port, certificates=[other])
    with pytest.raises(Unanswered, match="not been heard of"):
        await request


async def test_a_slow_answer_is_not_silence(kit, until, monkeypatch):
    monkeypatch.setattr(dialed, "SILENCE", 0.5)
    server = await kit.listener(answer=lambda data: None)
    connection = await kit.dial(server.listener.address, limits=transport.Limits(keep_alive=0.05))
    slow = asyncio.create_task(connection.exchange(b"hello", timeout=30))
    await until("the request", lambda: server.requests)
    await asyncio.wait([slow], timeout=1.2)
    conn, stream, _ = server.of("request")[0]
    server.listener.send(conn, stream, b"at last")
    assert await slow == b"at last"


async def test_keep_alive_outlives_the_idle_timeout(kit, until):
    server = await kit.listener(idle_timeout=2.0)
    connection = await kit.dial(server.listener.address, limits=transport.Limits(keep_alive=0.2))
    quiet = await kit.dial(server.listener.address)
    await until("the idle timeout of one that keeps quiet", lambda: quiet.closed)
    assert await connection.exchange(b"hello", timeout=10) == b"echo hello"


def test_a_certificate_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(TransportError, match=r"tls\.crt: No such file"):
        load(tmp_path / "tls.crt", tmp_path / "tls.key")


def test_a_certificate_pair_is_loaded_from_files(tmp_path):
    pair = self_signed(now=datetime.now(UTC))
    (tmp_path / "tls.crt").write_bytes(pair.chain_pem)
    (tmp_path / "tls.key").write_bytes(pair.key_pem)
    loaded = load(tmp_path / "tls.crt", tmp_path / "tls.key")
    assert (loaded.chain_pem, loaded.key_pem) == (pair.chain_pem, pair.key_pem)
    assert "PRIVATE" not in repr(loaded)
