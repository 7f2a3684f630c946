"""The sweep forgets what has expired and nothing else, at one replica at a time."""

from __future__ import annotations

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_broker.state.codes import Codes
from demarkus_broker.state.devices import Devices
from demarkus_broker.state.facts import Facts
from demarkus_broker.state.logins import Logins
from demarkus_broker.state.registrations import Registrations
from demarkus_broker.state.sweep import INTERVAL, MARGIN, MOST, Population, due, sweep
from demarkus_broker.state.sweep import population as count

NOW = 1_800_000_000
LATER = NOW + 100 + MARGIN + INTERVAL


@pytest.fixture
def population() -> Population:
    return Population(count([]))


async def fill(facts: Facts, *, expires: int) -> None:
    """One of each kind."""
    code = await Codes(facts).issue({}, expires=expires)
    await Codes(facts).use(code, login="l")
    device_code, _ = await Devices(facts).ask({}, expires=expires)
    device = await Devices(facts).find(device_code)
    assert device is not None
    await Devices(facts).decide(device.name, {})
    await Devices(facts).collect(device.name)
    logins = Logins(facts)
    name = logins.new_name(expires)
    await logins.begin(name, {}, person="s-ann", now=NOW)
    await Registrations(facts).add({}, expires=expires)


async def test_what_has_expired_goes_and_the_rest_stays(population: Population) -> None:
    facts = Facts(MemoryBlobs())
    await fill(facts, expires=LATER + 100)
    staying = await facts.keys("")
    await fill(facts, expires=NOW + 100)
    await sweep(facts, population, now=NOW + 50)
    assert len(await facts.keys("")) > 2 * len(staying)
    assert await sweep(facts, population, now=LATER) > len(staying)
    assert [key for key in await facts.keys("") if not key.startswith("sweeps/")] == staying
    assert (population.counts["codes"], population.counts["logins"], population.counts["registrations"]) == (1, 1, 1)


async def test_one_replica_sweeps_in_an_interval_and_the_others_count(population: Population) -> None:
    facts = Facts(MemoryBlobs())
    await fill(facts, expires=NOW + 100)
    assert await sweep(facts, population, now=LATER) > 0
    await fill(facts, expires=NOW + 101)
    other = Population(count([]))
    assert await sweep(facts, other, now=LATER + 1) == 0
    assert other.counts["codes"] == 0, "what has expired does not take up room"
    assert await sweep(facts, other, now=LATER + INTERVAL) > 0


async def test_sweeps_leave_one_trace_at_a_time(population: Population) -> None:
    facts = Facts(MemoryBlobs())
    for n in range(100):
        await sweep(facts, population, now=NOW + n * INTERVAL)
    assert len(await facts.keys("sweeps/")) <= MARGIN // INTERVAL + 3


def test_what_says_nothing_of_its_expiry_is_left_alone() -> None:
    assert due(["lost", "codes/x/issued", f"codes/{NOW}-zz/issued"], now=NOW * 2) == []


def test_a_full_store_has_no_room() -> None:
    crowd = Population(count(f"codes/{n}/issued" for n in range(MOST["codes"])))
    assert not crowd.has_room("codes")
    assert crowd.has_room("logins")
