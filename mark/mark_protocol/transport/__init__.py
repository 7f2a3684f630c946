"""Mark over QUIC: the port that services are written against, and the engines behind it.

port.py          what an engine offers and asks: Listener, Connection, Handler, Limits, Trust; how a transport fails
certificates.py  certificate pairs: loading, checking, making one for development
portable/        the engine on aioquic

`listen` and `dial` choose the engine by the environment variable MARK_ENGINE: `auto` (the default), `portable`, or
`native`, which is an error as long as no native engine is installed, so that a slow server is never a silent one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from mark_protocol.transport.port import Certificate, Connection, Handler, Limits, Listener, TransportError, Trust
from mark_protocol.transport.portable.dialer import dial as _dial_portable
from mark_protocol.transport.portable.listener import listen as _listen_portable

ENGINE_VARIABLE = "MARK_ENGINE"


async def listen(
    host: str, port: int, *, certificates: Sequence[Certificate], limits: Limits | None = None, handler: Handler
) -> Listener:
    """Bind UDP `host`:`port` (port 0 = any free one; host `::` takes IPv4 too) and accept Mark connections.

    The handler is not called before the caller has the listener back and waits for something.

    Raises:
        TransportError: the address is taken or not ours, a certificate is broken, or the engine is not there.
    """
    _check_engine(os.environ)
    return await _listen_portable(host, port, certificates=certificates, limits=limits or Limits(), handler=handler)


async def dial(
    host: str, port: int, *, server_name: str, trust: Trust, limits: Limits | None = None, timeout: float = 10.0
) -> Connection:
    """Connect to a Mark server. `server_name` is what its certificate has to be for, and what SNI says; `host` is only
    where the packets go (Mark protocol 1.3). `timeout` in seconds is for resolving, connecting and the handshake.

    Raises:
        Untrusted: the certificate is not for `server_name`, or not under the roots of `trust`.
        NotSent: anything else: no such host, nothing there, no answer in time, not a Mark server.
        TransportError: the engine that MARK_ENGINE names is not there.
    """
    _check_engine(os.environ)
    return await _dial_portable(
        host, port, server_name=server_name, trust=trust, limits=limits or Limits(), timeout=timeout
    )


def _check_engine(environment: Mapping[str, str]) -> None:
    engine = environment.get(ENGINE_VARIABLE) or "auto"
    if engine == "native":
        raise TransportError(f"{ENGINE_VARIABLE}=native: no native engine is installed; use auto or portable")
    if engine not in ("auto", "portable"):
        raise TransportError(f"{ENGINE_VARIABLE}={engine}: expected auto, native or portable")
