"""UDP sockets of the portable engine: opening, and reading in batches.

A wake-up drains up to 64 datagrams before anything is answered. One transmission for a batch, instead of one for every
datagram, is what makes a pure Python engine bearable.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

from mark_protocol.transport.port import Address, TransportError

BATCH = 64
_BUFFER = 4 << 20
_LARGEST_DATAGRAM = 65535

SocketAddress = tuple[Any, ...]


def _prepare(sock: socket.socket) -> None:
    sock.setblocking(False)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        with contextlib.suppress(OSError):  # a wish: the system may cap it
            sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER)


async def _resolve(host: str, port: int, *, passive: bool) -> list[tuple[int, SocketAddress]]:
    loop = asyncio.get_running_loop()
    flags = socket.AI_PASSIVE if passive else 0
    try:
        found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_DGRAM, flags=flags)
    except OSError as error:
        raise TransportError(f"{host}: the name has no address ({error.strerror or error})") from error
    return list(dict.fromkeys((family, address) for family, _, _, _, address in found))


async def bind(host: str, port: int) -> socket.socket:
    """A UDP socket bound to `host` (name or address; `::` takes IPv4 too) and `port` (0 = any free one).

    Raises:
        TransportError: the address cannot be had; the text says why.
    """
    family, address = (await _resolve(host, port, passive=True))[0]
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        _prepare(sock)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(address)
    except OSError as error:
        sock.close()
        raise TransportError(f"cannot listen on UDP {host}:{port}: {error.strerror or error}") from error
    return sock


async def connect(host: str, port: int) -> list[tuple[socket.socket, SocketAddress]]:
    """One connected UDP socket for each address of `host`, in the resolver's order; the caller closes them.

    Connected, so that the system tells when nothing listens there, and drops what others send.

    Raises:
        TransportError: the name has no address, or no address can be reached from here.
    """
    sockets: list[tuple[socket.socket, SocketAddress]] = []
    problem: OSError | None = None
    for family, address in await _resolve(host, port, passive=False):
        sock = socket.socket(family, socket.SOCK_DGRAM)
        try:
            _prepare(sock)
            sock.connect(address)
        except OSError as error:
            sock.close()
            problem = error
        else:
            sockets.append((sock, address))
    if not sockets:
        raise TransportError(f"{host}:{port} cannot be reached: {problem.strerror if problem else 'no address'}")
    return sockets


def drain(sock: socket.socket) -> Iterator[tuple[bytes, SocketAddress]]:
    """What has arrived, at most one batch.

    Raises:
        ConnectionRefusedError: connected sockets only: nothing listens at the other end.
    """
    for _ in range(BATCH):
        try:
            yield sock.recvfrom(_LARGEST_DATAGRAM)
        except (BlockingIOError, InterruptedError):
            return


def address_of(socket_address: SocketAddress) -> Address:
    """Host and port; an IPv4 peer of a dual-stack socket shows as IPv4."""
    host, port = socket_address[:2]
    return Address(host.removeprefix("::ffff:") if "." in host else host, port)
