"""A universe of real processes: `demarkus-world serve` behind `demarkus-broker serve`, verified TLS, signed grants."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ipaddress
import json
import os
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from mark_protocol.grants import public_jwks

BIN = Path(sys.executable).parent
START_SECONDS = 30.0
"""How long a process may take to become ready on a busy machine."""
RELOAD_SECONDS = 15.0
"""How long a changed file may take to be in force."""


def until(what: str, condition: Callable[[], Any], *, seconds: float = RELOAD_SECONDS) -> Any:
    """Ask until the answer is true, and give it; fails with what was waited for."""
    deadline = time.monotonic() + seconds
    while True:
        if answer := condition():
            return answer
        if time.monotonic() > deadline:
            pytest.fail(f"waited {seconds:g} s for {what}")
        time.sleep(0.05)


class Authority:
    """The CA of a universe."""

    def __init__(self, name: str = "test CA") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._certificate = (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> bytes:
        return self._certificate.public_bytes(Encoding.PEM)

    def leaf(self, *names: str) -> tuple[bytes, bytes]:
        """A certificate for these names and addresses, and its key, both PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        sans: list[x509.GeneralName] = []
        for name in names:
            try:
                sans.append(x509.IPAddress(ipaddress.ip_address(name)))
            except ValueError:
                sans.append(x509.DNSName(name))
        certificate = (
            self._builder(x509.Name([]), key.public_key())
            .add_extension(x509.SubjectAlternativeName(sans), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return certificate.public_bytes(Encoding.PEM), private

    def _builder(self, subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
        )


@dataclass
class Process:
    """A service as a child process, with its log."""

    program: str
    config: Path
    log: Path
    child: subprocess.Popen[bytes] | None = None
    health: str = ""

    def start(self) -> Mapping[str, Any]:
        """Start it and wait until it is ready; gives what `/readyz?verbose` says."""
        with self.log.open("ab") as log:
            self.child = subprocess.Popen(
                [BIN / self.program, "serve", "--config", self.config, "--stop-on-stdin-eof"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={name: value for name, value in os.environ.items() if name != "DEMARKUS_CONFIG"},
            )
        return until(f"{self.program} to be ready", self._ready, seconds=START_SECONDS)

    def _ready(self) -> Mapping[str, Any] | None:
        assert self.child is not None
        if self.child.poll() is not None:
            pytest.fail(f"{self.program} ended with {self.child.returncode}:\n{self.text()}")
        facts = self.facts()
        return facts if facts and facts["ready"] else None

    def facts(self) -> Mapping[str, Any] | None:
        """What `/readyz?verbose` says; None if nobody is there."""
        try:
            with urllib.request.urlopen(f"http://{self.health}/readyz?verbose", timeout=2) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)
        except OSError:
            return None

    def metrics(self) -> str:
        with urllib.request.urlopen(f"http://{self.health}/metrics", timeout=5) as answer:
            return answer.read().decode()

    def text(self) -> str:
        return self.log.read_text()

    def kill(self) -> None:
        if self.child is not None and self.child.poll() is None:
            self.child.kill()
            self.child.wait()

    def stop(self) -> int:
        """End it as Kubernetes does, and give its exit code."""
        assert self.child is not None
        self.child.terminate()
        try:
            return self.child.wait(START_SECONDS)
        finally:
            self.kill()
            if self.child.stdin is not None:
                self.child.stdin.close()


@dataclass
class World(Process):
    """A world process, with what the broker has to know of it."""

    name: str = ""
    port: int = 0
    settings: dict[str, Any] = field(default_factory=dict)

    def write(self, **fields: Any) -> None:
        """Change its configuration file, as the operator would; one that runs has taken it over afterwards."""
        self.settings |= fields
        replace(self.config, yaml.safe_dump(self.settings))
        if self.child is not None:
            digest = hashlib.sha256(self.config.read_bytes()).hexdigest()
            until(f"{self.name} to reload", lambda: (self.facts() or {}).get("loaded", {}).get("config") == digest)

    def route(self, **fields: Any) -> dict[str, Any]:
        """Its entry in broker.yaml."""
        return {
            "name": self.name,
            "namespace": "team",
            "addresses": [f"127.0.0.1:{self.port}"],
            **self.settings["identity"],
            "access": {"writers": [{"emails": ["ann@example.com"]}]},
        } | fields


def replace(path: Path, text: str) -> None:
    """Write a file as a mount does: the whole new content at once."""
    temporary = path.with_suffix(".new")
    temporary.write_text(text)
    temporary.rename(path)


def free_port(kind: str = "tcp") -> int:
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Site:
    """A folder with a CA, keys, worlds and a broker, all on loopback."""

    def __init__(self, folder: Path, key_files: Any) -> None:
        self.folder = folder
        self.key_files = key_files
        self.authority = Authority()
        self.processes: list[Process] = []
        key_files.write(folder / "keys")
        (folder / "ca.crt").write_bytes(self.authority.pem)
        (folder / "keys.json").write_text(json.dumps(public_jwks([key_files.grant.public_key()])))
        self.http, self.port = "", free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.routes: list[dict[str, Any]] = []
        self.generation = 0
        self.log_level = "info"
        self.fields: dict[str, Any] = {}
        self.broker = Process("demarkus-broker", folder / "broker.yaml", folder / "broker.log")
        self.broker.health = f"127.0.0.1:{free_port()}"

    def world(
        self, name: str, *, names: tuple[str, ...] = (), authority: Authority | None = None, **fields: Any
    ) -> World:
        """A world that runs."""
        folder = self.folder / name
        folder.mkdir()
        chain, key = (authority or self.authority).leaf(*(names or (f"{name}.team.svc", "127.0.0.1")))
        (folder / "tls.crt").write_bytes(chain)
        (folder / "tls.key").write_bytes(key)
        world = World("demarkus-world", folder / "world.yaml", folder / "world.log", name=name, port=free_port("udp"))
        world.health = f"127.0.0.1:{free_port()}"
        world.write(
            **{
                "name": name,
                "identity": {"history": secrets.token_hex(16), "incarnation": secrets.token_hex(16)},
                "store": {"directory": str(folder / "data")},
                "listen": {"mark": f"127.0.0.1:{world.port}", "health": world.health},
                "tls": {"certificate": str(folder / "tls.crt"), "key": str(folder / "tls.key")},
                "keySet": str(self.folder / "keys.json"),
            }
            | fields
        )
        (folder / "data").mkdir()
        self.processes.append(world)
        world.start()
        return world

    def __getitem__(self, name: str) -> World:
        """A world by its name."""
        return next(world for world in self.processes if isinstance(world, World) and world.name == name)

    def configure(self, *routes: dict[str, Any]) -> None:
        """Write broker.yaml with these worlds; a broker that runs takes it over."""
        self.routes = list(routes)
        self.generation += 1
        document = {
            "publicURL": self.url,
            "listen": {"http": f"127.0.0.1:{self.port}", "health": self.broker.health},
            "keys": {"directory": str(self.folder / "keys")},
            "caBundle": str(self.folder / "ca.crt"),
            "worlds": self.routes,
            "generation": self.generation,
            "log": {"level": self.log_level},
        } | self.fields
        replace(self.broker.config, yaml.safe_dump(document))
        if self.broker.child is not None:
            until(
                f"generation {self.generation} to be in force",
                lambda: (self.broker.facts() or {}).get("generation") == self.generation,
            )

    def start_broker(self, *routes: dict[str, Any]) -> None:
        self.configure(*routes)
        self.processes.append(self.broker)
        self.broker.start()

    def bearer(self, who: str = "ann", **claims: Any) -> str:
        email = {"email": f"{who}@example.com", "email_verified": True}
        return str(self.key_files.bearer(public_url=self.url, **{"sub": who} | email | claims))

    async def fetch(self, world: str = "kitchen", path: str = "/", who: str = "ann") -> str:
        """What becomes of a fetch: the world's status, or the kind of the error."""
        structured = (await self.call("mark_fetch", who, url=f"mark://{world}{path}")).structured_content
        return str(structured.get("error") or structured["status"])

    def await_facts(self, what: str, condition: Callable[[Mapping[str, Any]], Any]) -> Any:
        """Wait until the broker's facts are as wanted."""
        return until(what, lambda: condition(self.broker.facts() or {}))

    def http_client(self, who: str | None = "ann", *, bearer: str = "", **headers: str) -> httpx2.AsyncClient:
        """An HTTP client with somebody's bearer."""
        token = bearer or (self.bearer(who) if who else "")
        authorization = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx2.AsyncClient(base_url=self.url, headers=authorization | headers, timeout=60, trust_env=False)

    @contextlib.asynccontextmanager
    async def client(self, who: str = "ann", *, mode: str = "auto", path: str = "/mcp") -> AsyncIterator[Client]:
        """The official MCP client, signed in as somebody."""
        async with self.http_client(who) as http:
            transport = streamable_http_client(f"{self.url}{path}", http_client=http)
            async with Client(transport, mode=mode, cache=None) as client:
                yield client

    async def call(self, tool: str, who: str = "ann", **arguments: Any) -> Any:
        """One call of one tool."""
        async with self.client(who) as client:
            return await client.call_tool(tool, arguments)

    def close(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            if process.child is not None and process.child.stdin is not None:
                process.child.stdin.close()


@pytest.fixture(scope="session")
def site_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    return lambda: tmp_path_factory.mktemp("site")


@pytest.fixture
def site(site_folder: Callable[[], Path], key_files: Any) -> Iterator[Site]:
    """An empty site of one's own, for tests that stop or change its processes."""
    site = Site(site_folder(), key_files)
    yield site
    site.close()


@pytest.fixture(scope="module")
def changing(site_folder: Callable[[], Path], key_files: Any) -> Iterator[Site]:
    """A running site whose tests change its files and each begin with `configure`: worlds kitchen and garden."""
    site = Site(site_folder(), key_files)
    try:
        site.world("kitchen")
        site.world("garden")
        site.start_broker()
        yield site
    finally:
        site.close()


@pytest.fixture(scope="session")
def universe(site_folder: Callable[[], Path], key_files: Any) -> Iterator[Site]:
    """A running universe that tests share and leave as it is.

    kitchen: everybody reads, example.com writes. garden: bob alone. attic: ann appends below /notes, cat does it all.
    """
    site = Site(site_folder(), key_files)
    try:
        kitchen, garden, attic = site.world("kitchen"), site.world("garden"), site.world("attic")
        ann, bob, cat = ({"emails": [f"{name}@example.com"]} for name in ("ann", "bob", "cat"))
        site.start_broker(
            kitchen.route(access={"writers": [{"domains": ["example.com"]}]}),
            garden.route(access={"readers": [bob], "writers": [bob]}),
            attic.route(access={"writers": [ann | {"paths": ["/notes/**"], "operations": ["append"]}, cat]}),
        )
        yield site
    finally:
        site.close()


@pytest.fixture
def a_path() -> str:
    """A path nobody else uses, so that tests can share a world."""
    return f"/t/{secrets.token_hex(6)}.md"


@pytest.fixture
def eventually() -> Callable[..., Any]:
    """Await an async condition until it is true; fails with what was waited for."""

    async def wait(what: str, condition: Callable[[], Any], *, seconds: float = RELOAD_SECONDS) -> Any:
        deadline = time.monotonic() + seconds
        while True:
            if answer := await condition():
                return answer
            if time.monotonic() > deadline:
                pytest.fail(f"waited {seconds:g} s for {what}")
            await asyncio.sleep(0.1)

    return wait
