"""Our own servers, started as their users start them: what the suite asks when it is given no other server.

This file alone knows whose server it is. What it makes is a profile like any other, with everything in it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import yaml

from mark_protocol.transport.certificates import self_signed
from tests.conformance.prepare import new_base, new_tokens, token_file
from tests.conformance.profile import Profile
from tests.conformance.wire import DEADLINE, Endpoint

COMMAND = str(Path(sys.executable).with_name("demarkus-world"))
KINDS = ("compatible", "protected")
PATIENCE, IDLE = "18s", "120s"
"""Longer than by default, for machines that do much else; but no longer than the suite waits for a heartbeat."""


@dataclass
class OwnServers:
    """The processes behind one profile: the server itself, one without tokens, one that is read-only."""

    kind: str
    folder: Path
    base: str = field(default_factory=new_base)
    tokens: dict[str, str] = field(default_factory=lambda: new_tokens(alone=True))
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self) -> Profile:
        """Starts them all at once, and waits until they serve."""
        tokens = self.folder / "tokens.toml"
        tokens.write_text(token_file(self.tokens, self.base, alone=True))
        begin = self._drop_in if self.kind == "compatible" else self._configured
        logs = [
            begin("main", "--tokens", str(tokens)),
            begin("bare"),
            begin("readonly", "--tokens", str(tokens), "--read-only"),
        ]
        main, bare, readonly = (self._endpoint(log, process) for log, process in zip(logs, self.processes, strict=True))
        return Profile(
            endpoint=main,
            base=self.base,
            tokens=self.tokens,
            reads="public",
            history=self.kind,
            alone=True,
            policy=True,
            without_tokens=bare,
            read_only=readonly,
            stop=f"kill -TERM {self.processes[1].pid}",
            ours=True,
            name=f"our own, history {self.kind}",
        )

    def stop(self) -> None:
        """Ends them all."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(DEADLINE)
            assert process.stdin is not None
            process.stdin.close()

    def _drop_in(self, name: str, *arguments: str) -> Path:
        """Without a configuration file, as in the place of a Go server."""
        root = self.folder / name
        root.mkdir()
        return self._run(name, "--root", str(root), "--port", "0", "--host", "127.0.0.1", *arguments)

    def _configured(self, name: str, *arguments: str) -> Path:
        """With world.yaml, as a pod gets it."""
        root = self.folder / name
        (root / "data").mkdir(parents=True)
        certificate = self_signed(now=datetime.now(UTC))
        (root / "tls.crt").write_bytes(certificate.chain_pem)
        (root / "tls.key").write_bytes(certificate.key_pem)
        config = {
            "name": name,
            "identity": {"history": "0a" * 16, "incarnation": "1b" * 16},
            "store": {"directory": str(root / "data")},
            "tls": {"certificate": str(root / "tls.crt"), "key": str(root / "tls.key")},
            "listen": {"mark": "127.0.0.1:0", "health": "127.0.0.1:0"},
            "reads": "public",
            "history": "protected",
            "limits": {"rate": {"perSecond": 0}, "requestTimeout": PATIENCE, "idleTimeout": IDLE},
            "tokens": [arguments[1]] if arguments else [],
            "readOnly": "--read-only" in arguments,
        }
        (root / "world.yaml").write_text(yaml.safe_dump(config))
        return self._run(name, "--config", str(root / "world.yaml"))

    def _run(self, name: str, *arguments: str) -> Path:
        log = self.folder / f"{name}.log"
        environment = {key: value for key, value in os.environ.items() if not key.startswith("DEMARKUS_")}
        environment |= {"DEMARKUS_RATE_LIMIT": "0", "DEMARKUS_LOG_FORMAT": "json"}
        environment |= {"DEMARKUS_REQUEST_TIMEOUT": PATIENCE, "DEMARKUS_IDLE_TIMEOUT": IDLE}
        with log.open("wb") as sink:
            process = subprocess.Popen(
                [COMMAND, "serve", *arguments, "--stop-on-stdin-eof"],
                stdin=subprocess.PIPE,
                stdout=sink,
                stderr=sink,
                env=environment,
            )
        self.processes.append(process)
        return log

    def _endpoint(self, log: Path, process: subprocess.Popen[bytes]) -> Endpoint:
        end = time.monotonic() + DEADLINE
        while True:
            for line in log.read_text().splitlines():
                if '"serving"' in line:
                    port = int(re.sub(r".*:", "", json.loads(line)["listen"]["mark"]))
                    return Endpoint(host="127.0.0.1", port=port, server_name="localhost", ca=self._ca(log.stem))
            assert process.poll() is None, f"{shlex.join(process.args)} ended:\n{log.read_text()}"  # type: ignore[arg-type]
            assert time.monotonic() < end, f"waited {DEADLINE:g} s for a server to serve:\n{log.read_text()}"
            time.sleep(0.02)

    def _ca(self, name: str) -> bytes:
        made = self.folder / name / ("world-dev.crt" if self.kind == "compatible" else "tls.crt")
        return made.read_bytes()
