"""A real World behind a real gateway with the operator at work, and people, robots and sessions that use them."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import httpx2
from cryptography import x509
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from demarkus_operator.local import bearer
from demarkus_operator.plan.names import UniverseNames, WorldNames
from demarkus_operator.plan.objects import Ref
from demarkus_operator.plan.rotation import notes_of
from demarkus_operator.reconcile.concern import concern_of
from demarkus_operator.reconcile.loop import Outcome, reconcile
from demarkus_operator.reconcile.universe import universe_ref
from demarkus_operator.witness.port import NobodyWitnesses
from mark_protocol.client.client import MarkClient, Unreachable
from mark_protocol.client.pool import Pool
from mark_protocol.metadata import AUTH
from mark_protocol.request import Request, Verb, encode_request
from mark_protocol.response import Response, parse_response
from mark_protocol.transport import dial
from mark_protocol.transport.port import Trust
from tests.operator.real_worlds import RealWorlds, eventually

PERSON = "ann@example.com"
DOCUMENT = "mark://tea/native.md"
EVERY = "80d"
AUTHORITY = Ref("v1", "Secret", "demarkus-system", "ca-acme-acme")


class RealUniverse(RealWorlds):
    """Universe acme with World tea, as processes."""

    ahead = timedelta()
    trust: Mapping[str, Any] = {}
    numbers = itertools.count()

    def __post_init__(self) -> None:
        super().__post_init__()
        # Calls that are signed by the played clock would be from another time to the World.
        self.edge = dataclasses.replace(self.edge, witness=NobodyWitnesses())

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    async def declare(self, name: str = "tea", *, annotations: dict[str, str] | None = None) -> None:
        universe = {"publicURL": "https://mark.example.com", "trust": dict(self.trust), "broker": {"replicas": 1}}
        world = {
            "universeRef": {"name": "acme"},
            "store": {"volume": {"size": "1Gi"}},
            "access": {"writers": [{"emails": [PERSON]}]},
            "tokens": [{"name": "robot", "operations": ["read", "publish"], "paths": ["/**"], "rotateEvery": EVERY}],
        }
        for kind, called, spec in (("Universe", "acme", universe), ("World", name, world)):
            metadata = {"name": called, "namespace": "acme", "annotations": annotations or {}}
            manifest = {"apiVersion": "demarkus.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
            await self.port.apply(manifest)

    async def look(self) -> list[str]:
        """The operator looks at both, and the processes' files follow."""
        written = []
        for ref in (universe_ref("acme", "acme"), self.world()):
            outcome = Outcome()
            await reconcile(self.edge, ref, concern_of(self.edge, ref), outcome=outcome)
            written += outcome.written
        await self.pods.sync()
        return written

    async def until(self, what: str, condition: Callable[[], Awaitable[bool]]) -> None:
        """The operator at work until something is so."""

        async def probe() -> bool:
            await self.look()
            return await condition()

        await eventually(what, probe)

    async def ready(self) -> bool:
        for kind, name in (("Universe", "acme"), ("World", "tea")):
            status = (await self.port.get(Ref("demarkus.io/v1alpha1", kind, "acme", name))).get("status") or {}
            reasons = {entry["type"]: entry["reason"] for entry in status.get("conditions", ())}
            if reasons.get("Ready") != "Serving":
                return False
        return True

    async def signing(self) -> dict[str, str]:
        return dict(json.loads((await self.secret("acme-broker-keys"))["signing.json"]))

    async def authority(self) -> bytes:
        return (await self.authorities())["ca.crt"]

    async def authorities(self) -> dict[str, bytes]:
        return await self.secret_of(AUTHORITY)

    async def token(self) -> str:
        return (await self.secret("tea-token-robot"))["token"].decode()

    async def serial(self) -> int:
        return x509.load_pem_x509_certificate((await self.secret("tea-tls"))["tls.crt"]).serial_number

    async def credentials(self) -> dict[str, Any]:
        """What is in use now, of every kind."""
        signing = await self.signing()
        return {
            "key for grants": signing["grant"],
            "key for bearers": signing["broker"],
            "authority": await self.authority(),
            "certificate": await self.serial(),
            "token": await self.token(),
        }

    async def accepted(self) -> dict[str, int]:
        """How many of each kind are accepted."""
        keys = await self.secret("acme-broker-keys")
        return {
            "key for grants": sum(name.startswith("grant-") for name in keys),
            "key for bearers": sum(name.startswith("broker-") for name in keys),
            "authority": sum(name.endswith(".crt") for name in await self.authorities()),
            "token": (await self.secret("tea-tokens"))["tokens.toml"].count(b"hash ="),
        }

    async def unused(self) -> list[str]:
        """Since when the old ones are not used any more; empty where that is not known yet."""
        refs = (AUTHORITY, UniverseNames("acme", "acme").keys, WorldNames("acme", "tea").token("robot"))
        notes = [notes_of(await self.port.get(ref)) for ref in refs]
        return [time for note in notes for kind in note.values() for time in kind["old"].values()]

    def url(self) -> str:
        workload = UniverseNames("acme", "acme").deployment
        (pod,) = (pod for pod in self.pods.states() if pod.workload == workload)
        return f"http://{pod.listen['http']}"

    async def bearer(self) -> str:
        keys = await self.port.get(UniverseNames("acme", "acme").keys)
        key = bearer.signing_key(keys)
        return bearer.sign(email=PERSON, public_url=self.url(), key=key, now=datetime.now(UTC))

    async def gateway(self, token: str, tool: str, **arguments: Any) -> str:
        """What becomes of a call of a tool: the World's status, the kind of an error, or the HTTP status."""
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http:
            if (await http.get(f"{self.url()}/mcp")).status_code == 401:
                return "401"
            async with Client(streamable_http_client(f"{self.url()}/mcp", http_client=http)) as client:
                result = await client.call_tool(tool, arguments)
        assert isinstance(result.structured_content, dict)
        return str(result.structured_content.get("error") or result.structured_content["status"])

    def mark_address(self) -> tuple[str, int]:
        address = self._address(self.world(), "mark")
        assert address is not None
        return address.rpartition(":")[0], int(address.rpartition(":")[2])

    async def native(self, token: str, roots: bytes) -> str:
        """The status of a write over a new connection; `unreachable` if the World's certificate is not trusted."""
        pool = Pool([self.mark_address()], server_name="tea.acme.svc", trust=Trust(roots=roots), size=1)
        try:
            path = f"/native/{next(self.numbers)}.md"
            return (await MarkClient(pool, auth=token).publish(path, b"# Tea\n")).status
        except Unreachable:
            return "unreachable"
        finally:
            await pool.close()


Declared = TypeVar("Declared", bound=RealUniverse)


@contextlib.asynccontextmanager
async def serving(made: Declared) -> AsyncIterator[Declared]:
    """The universe once its World and its gateway serve, and its processes ended afterwards."""
    await made.declare()
    try:
        await made.until("the World and its gateway serve", made.ready)
        yield made
    finally:
        await made.pods.close()


@dataclass
class Traffic:
    """People, robots and sessions that go on all the while; whatever they are told that is not a success."""

    universe: RealUniverse
    told: list[str] = field(default_factory=list)
    done: int = 0
    ends: bool = False

    async def people(self) -> None:
        """Through the gateway, with a bearer that is good for hours."""
        token = await self.universe.bearer()
        while not self.ends:
            self._note("gateway", await self.universe.gateway(token, "mark_fetch", url=DOCUMENT))
            token = await self.universe.bearer()

    async def robots(self) -> None:
        """With the token and the authorities that their mounts have now, and with those that they had at first."""
        first = await self.universe.token()
        while not self.ends:
            for token in (await self.universe.token(), first):
                roots, status = await self._roots(), "unreachable"
                while status == "unreachable":
                    status, tried = await self.universe.native(token, roots), roots
                    # Whoever reads and then waits for long may have read what is not trusted any more.
                    roots = await self._roots()
                    if roots == tried:
                        break
                self._note("robot", status)

    async def _roots(self) -> bytes:
        return (await self.universe.secret("tea-tls"))["ca.crt"]

    async def session(self) -> None:
        """One connection from before everything until after everything."""
        roots, token = (await self.universe.secret("tea-tls"))["ca.crt"], await self.universe.token()
        host, port = self.universe.mark_address()
        connection = await dial(host, port, server_name="tea.acme.svc", trust=Trust(roots=roots))
        request = encode_request(Request(Verb.FETCH, "/native.md", {AUTH: token}))
        try:
            while not self.ends:
                answer: Response = parse_response(await connection.exchange(request, timeout=60.0))
                self._note("session", answer.status)
                await asyncio.sleep(0.2)
        finally:
            connection.close()

    def _note(self, who: str, status: str) -> None:
        self.done += 1
        if status not in ("ok", "created"):
            self.told.append(f"{who}: {status}")

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            for work in (self.people, self.robots, self.session):
                group.create_task(work())
            try:
                yield
            finally:
                self.ends = True
