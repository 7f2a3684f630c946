"""The processes that are measured: a world over a store of its own, and the bare engine; their CPU time and memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from demarkus_world.engine.model import Identity
from mark_protocol.tokens import CapabilityToken, hash_token, render_entry
from mark_protocol.transport.certificates import self_signed

STREAMS = 128
TOKEN = "benchmark"
START_SECONDS = 240.0
TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Server:
    """A process that answers on a UDP port; clients trust `roots`."""

    name: str
    port: int
    pid: int
    roots: bytes

    def cpu(self) -> float:
        """Seconds of CPU time so far, all threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def rss_mb(self) -> int:
        """Memory that it holds now."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) // 1024


def until_idle(server: Server, *, share: float = 0.03) -> None:
    """Wait until what a server does of its own accord (indexing, checking) is done, or for four minutes."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        before = server.cpu()
        time.sleep(2.0)
        if server.cpu() - before < 2.0 * share:
            return


@contextmanager
def a_world(folder: Path, identity: Identity) -> Iterator[Server]:
    """A world as a pod would run it, over the store in `folder`/data, without a limit on the rate of requests."""
    certificate, key, roots = _certificate(folder)
    (folder / "data").mkdir(exist_ok=True)
    operations = frozenset({"read", "publish"})
    token = CapabilityToken("benchmark", hash_token(TOKEN), ("/**",), operations)
    (folder / "tokens.toml").write_text(render_entry(token))
    config = {
        "name": "benchmark",
        "identity": {"history": identity.history, "incarnation": identity.incarnation},
        "store": {"directory": str(folder / "data")},
        "reads": "scoped",
        "tokens": [str(folder / "tokens.toml")],
        "tls": {"certificate": str(certificate), "key": str(key)},
        "listen": {"mark": "127.0.0.1:0", "health": "127.0.0.1:0"},
        "limits": {"maxStreams": STREAMS, "rate": {"perSecond": 0}},
    }
    (folder / "world.yaml").write_text(json.dumps(config))
    log = folder / "log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [
                str(Path(sys.executable).with_name("demarkus-world")),
                *("serve", "--config", str(folder / "world.yaml"), "--stop-on-stdin-eof"),
            ],
            stdin=subprocess.PIPE,
            stdout=sink,
            stderr=sink,
        )
    try:
        yield Server("world", _serving(process, log), process.pid, roots)
    finally:
        _end(process)


@contextmanager
def the_bare_engine(folder: Path) -> Iterator[Server]:
    """The transport alone."""
    certificate, key, roots = _certificate(folder)
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "tests.benchmarks.world_echo", "--streams", str(STREAMS)),
            *("--certificate", str(certificate), "--key", str(key)),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        yield Server("echo", int(process.stdout.readline()), process.pid, roots)
    finally:
        _end(process)


def _certificate(folder: Path) -> tuple[Path, Path, bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    made = self_signed(now=datetime.now(UTC))
    chain, key = folder / "tls.crt", folder / "tls.key"
    chain.write_bytes(made.chain_pem)
    key.write_bytes(made.key_pem)
    return chain, key, made.chain_pem


def _serving(process: subprocess.Popen[bytes], log: Path) -> int:
    """The port, once the world serves."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        for line in log.read_bytes().splitlines():
            if b'"message": "serving"' in line:
                return int(json.loads(line)["listen"]["mark"].rpartition(":")[2])
        time.sleep(0.05)
    raise SystemExit(f"the world does not serve:\n{log.read_text()}")


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
