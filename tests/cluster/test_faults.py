"""Whatever the network and the API server do, in the end everything is as it should be.

The operator reaches the API server through a proxy that does it to the calls; when the operator ends, as it may, it is
started anew, as a kubelet would.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import urllib.error
from collections.abc import AsyncIterator, Sequence

import pytest

from demarkus_operator.plan.names import UniverseNames, WorldNames, operator_key
from tests.cluster.faulty import Faulty, Refusal, once_each
from tests.cluster.home import EXAMPLE, OPERATOR_NAMESPACE, POLL, Home, OperatorProcess, eventually

CONFLICT = Refusal(409, "Conflict")
FORBIDDEN = Refusal(403, "Forbidden")
BUSY = [Refusal(429, "TooManyRequests", 1), Refusal(500, "InternalError"), Refusal(503, "ServiceUnavailable")]

SILENCE = 10.0


class Kept:
    """An operator process that is started anew whenever it ends."""

    def __init__(self, home: Home, url: str, arguments: Sequence[str] = ()) -> None:
        token = home.plane.kubectl("create", "token", "demarkus-operator", "--namespace", OPERATOR_NAMESPACE)
        self._kubeconfig = home.plane.folder / f"{home.namespace}-faulty.kubeconfig"
        home.plane.write_kubeconfig(self._kubeconfig, {"token": token.stdout.strip()}, server=url)
        self._home, self._arguments = home, arguments
        self.current = self._start()

    def _start(self) -> OperatorProcess:
        return self._home.start_operator(kubeconfig=self._kubeconfig, arguments=self._arguments)

    async def keep(self) -> None:
        """For ever."""
        while True:
            await asyncio.sleep(POLL)
            if self.current.status is not None:
                self.current = self._start()

    async def alive(self) -> bool:
        """What its liveness probe says."""
        try:
            return await asyncio.to_thread(self.current.ask, "/livez") == "ok\n"
        except urllib.error.HTTPError as error:
            return error.code != 503
        except OSError:
            return False  # it is being started


@contextlib.asynccontextmanager
async def kept_running(home: Home, proxy: Faulty, *arguments: str) -> AsyncIterator[Kept]:
    """An operator behind the proxy."""
    kept = Kept(home, proxy.url, arguments)
    keeping = asyncio.create_task(kept.keep())
    try:
        yield kept
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await kept.current.stop()


@pytest.fixture
async def proxy(home: Home) -> AsyncIterator[Faulty]:
    """The way to the API server."""
    async with Faulty(home.plane) as started:
        yield started


async def all_of_the_example(home: Home) -> set[str]:
    """The example realised; the kinds and names of all there is."""
    home.apply_files(sorted(EXAMPLE.iterdir()))
    await home.settled()
    return {f"{ref.kind}/{ref.name.replace(home.namespace, '*')}" for ref in await home.objects()}


@pytest.fixture(scope="session")
def reference() -> dict[str, set[str]]:
    """What the example comes to without faults, once somebody looked."""
    return {}


async def expected(home: Home, reference: dict[str, set[str]]) -> set[str]:
    """The same from a plain dictionary of names, so that it costs no second run on the control plane."""
    from tests.reconcile.acme import TOKENS, Acme, a_settled, a_universe, a_world

    if not reference:
        objects = [a_universe(broker={"replicas": 2}), a_world(), a_world("packages", tokens=TOKENS)]
        acme = await a_settled(Acme(), objects)
        reference["all"] = {
            f"{ref.kind}/{ref.name.replace('-acme-acme', '-*-acme')}"
            for ref in acme.port.objects
            if ref.kind not in ("Namespace", "Event")
            and not ref.name.startswith("witness-")
            and ref != operator_key(OPERATOR_NAMESPACE)  # every namespace's, so not among this one's objects
        }
    return reference["all"]


@pytest.mark.parametrize(
    "refusals", [[CONFLICT], [FORBIDDEN], BUSY], ids=["409 on each write", "403 on each call", "429, 500, 503"]
)
async def test_every_call_fails_at_its_first_time(
    home: Home, proxy: Faulty, refusals: list[Refusal], reference: dict[str, set[str]]
) -> None:
    proxy.fault = once_each(*refusals, reads=refusals != [CONFLICT])
    async with kept_running(home, proxy) as kept:
        there = await all_of_the_example(home)
        secrets = await home.secrets()
        assert await expected(home, reference) <= there
        assert not [line for line in kept.current.lines("reconcile") if line["result"] == "bug"]
        for name in ("handbook", "packages"):
            assert (await home.condition(home.world(name), "Reconciled"))["status"] == "True"
        home.kubectl("annotate", "worlds,universes", "--all", "example.com/look=again")
        await kept.current.looked_at(home.world())
        assert await home.secrets() == secrets


@pytest.mark.parametrize("gone", [False, True], ids=["cut", "410"])
async def test_what_happens_while_watches_are_cut_is_made_up_for(home: Home, proxy: Faulty, gone: bool) -> None:
    """A change of a spec, a change of a child and the deletion of another; nobody tells of the last."""
    names = WorldNames(home.namespace, "handbook")
    async with kept_running(home, proxy):
        await all_of_the_example(home)
        proxy.fault = lambda call: BUSY[2] if call.watch else None
        proxy.cut(gone=gone)
        home.kubectl("delete", f"networkpolicy/{names.network_policy.name}")
        home.kubectl("label", f"service/{names.service.name}", "demarkus.io/world=other", "--overwrite")
        patch = json.dumps({"spec": {"limits": {"maxStreams": 7}}})
        home.kubectl("patch", "world/handbook", "--type=merge", "--patch", patch)
        proxy.fault = lambda call: None

        async def made_up_for() -> bool:
            policy, service, config = [
                await home.find(ref) for ref in (names.network_policy, names.service, names.config)
            ]
            return (
                policy is not None
                and service is not None
                and service["metadata"]["labels"]["demarkus.io/world"] == "handbook"
                and config is not None
                and "maxStreams: 7" in config["data"]["world.yaml"]
            )

        await eventually("the policy, the label and the limit", made_up_for)


async def test_stale_reads_lead_to_the_newest_in_the_end(home: Home, proxy: Faulty) -> None:
    names = WorldNames(home.namespace, "handbook")
    async with kept_running(home, proxy) as kept:
        await all_of_the_example(home)
        secrets = await home.secrets()
        proxy.stale = True
        home.kubectl("patch", "world/handbook", "--type=merge", "--patch", json.dumps({"spec": {"reads": "public"}}))
        before = len(kept.current.lines("reconcile"))

        async def misled() -> bool:
            return len(kept.current.lines("reconcile")) > before

        await eventually("a reconcile with what was", misled)
        proxy.stale = False
        home.kubectl("annotate", "world/handbook", "example.com/look=again")

        async def newest() -> bool:
            config = await home.api.get(names.config)
            seen = (await home.api.get(home.world())).get("status", {}).get("observedGeneration")
            return "reads: public" in config["data"]["world.yaml"] and seen == 2

        await eventually("the newest spec", newest)
        assert await home.secrets() == secrets


async def test_the_api_server_starts_anew(home: Home, proxy: Faulty) -> None:
    names = UniverseNames(home.namespace, "acme")
    async with kept_running(home, proxy):
        await all_of_the_example(home)
        secrets = await home.secrets()
        home.plane.restart_apiserver()
        await asyncio.to_thread(home.plane.wait_ready)
        patch = json.dumps({"spec": {"broker": {"replicas": 3}}})
        home.kubectl("patch", "universe/acme", "--type=merge", "--patch", patch)

        async def followed() -> bool:
            return bool((await home.api.get(names.deployment))["spec"]["replicas"] == 3)

        await eventually("three replicas", followed)
        await home.settled()
        assert await home.secrets() == secrets


async def test_row_24_an_operator_that_is_deaf_says_so_and_catches_up(home: Home) -> None:
    """Packets are dropped: no error, no event, no bookmark. Times are scaled: bookmarks every second instead of every
    minute, silence of 10 s instead of 3 min.
    """
    names = WorldNames(home.namespace, "handbook")
    async with Faulty(home.plane, bookmarks=1.0) as proxy, kept_running(home, proxy, f"--silence={SILENCE}") as kept:
        await all_of_the_example(home)
        assert await kept.alive()
        deaf = kept.current
        proxy.freeze()
        home.kubectl("delete", f"networkpolicy/{names.network_policy.name}")

        async def red() -> bool:
            return deaf.status is not None or not await kept.alive()

        await eventually("a red liveness, or an end by the lost lease", red)
        proxy.thaw()

        async def caught_up() -> bool:
            return await home.find(names.network_policy) is not None and await kept.alive()

        await eventually("the policy, and a green liveness", caught_up)


async def test_a_quiet_cluster_is_no_silence(home: Home) -> None:
    """Nothing changes for longer than a silence may last; bookmarks are life enough."""
    async with Faulty(home.plane, bookmarks=1.0) as proxy, kept_running(home, proxy, "--silence=4") as kept:
        await all_of_the_example(home)
        first = kept.current
        quiet_since = asyncio.get_running_loop().time()

        async def long_enough() -> bool:
            assert await kept.alive()
            return asyncio.get_running_loop().time() - quiet_since > 8

        await eventually("twice a silence", long_enough)
        assert kept.current is first
