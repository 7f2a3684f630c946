"""Facts are told once, also when nobody knows how a create ended; codes, devices and registrations rest on that."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_base.blobs.port import Exists, Unavailable
from demarkus_broker.state import names
from demarkus_broker.state.codes import Codes
from demarkus_broker.state.devices import Devices
from demarkus_broker.state.facts import Facts
from demarkus_broker.state.registrations import Registrations

NOW = 1_800_000_000


class Ambiguous(MemoryBlobs):
    """A store whose first creates report nothing certain. `kept`: they happened all the same."""

    def __init__(self, *, kept: bool, times: int = 1) -> None:
        super().__init__()
        self.kept = kept
        self.times = times

    async def create(self, key: str, data: bytes) -> None:
        if self.times:
            self.times -= 1
            if self.kept:
                await super().create(key, data)
            raise Unavailable("cut", ambiguous=True)
        await super().create(key, data)


@pytest.fixture
def facts() -> Facts:
    return Facts(MemoryBlobs())


async def test_of_many_tellers_one_wins(facts: Facts) -> None:
    told = await asyncio.gather(*(facts.tell("codes/x/used", {"login": str(n)}) for n in range(20)))
    assert told.count(True) == 1
    assert await facts.read("codes/x/used") == {"login": str(told.index(True))}


@pytest.mark.parametrize("kept", [True, False])
async def test_a_create_that_may_have_happened_is_settled_as_ours(kept: bool) -> None:
    facts = Facts(Ambiguous(kept=kept))
    assert await facts.tell("codes/x/used", {"login": "a"})
    assert not await facts.tell("codes/x/used", {"login": "a"}), "the same words of another teller are not the same"


async def test_an_ambiguous_create_that_another_one_won_is_lost() -> None:
    blobs = Ambiguous(kept=False)
    await MemoryBlobs.create(blobs, "codes/x/used", b'{"login":"b"}')
    assert not await Facts(blobs).tell("codes/x/used", {"login": "a"})


async def test_a_store_that_stays_ambiguous_is_unavailable() -> None:
    with pytest.raises(Unavailable):
        await Facts(Ambiguous(kept=False, times=9)).tell("codes/x/used", {})


async def test_a_code_is_used_once_and_tells_whose_login_it_became(facts: Facts) -> None:
    codes = Codes(facts)
    code = await codes.issue({"client": "c"}, expires=NOW + 60)
    assert await codes.grant(code, now=NOW) == {"client": "c"}
    assert await codes.use(code, login="first") is None
    assert await codes.use(code, login="second") == "first"


async def test_a_code_expires_and_its_expiry_can_not_be_altered(facts: Facts) -> None:
    codes = Codes(facts)
    code = await codes.issue({}, expires=NOW + 60)
    assert await codes.grant(code, now=NOW + 60) is None
    assert await codes.grant(f"{NOW + 6000}{code[10:]}", now=NOW) is None
    for strange in ("", "x", code + "0", code.upper() + "\n", "../../logins/x", f"{NOW + 60}-{'g' * 32}"):
        assert await codes.grant(strange, now=NOW) is None


async def test_the_store_does_not_hold_what_it_takes_to_use_a_code(facts: Facts) -> None:
    code = await Codes(facts).issue({}, expires=NOW + 60)
    assert all(code not in key and code[11:] not in key for key in await facts.keys(""))


async def test_a_device_is_found_by_both_of_its_codes_until_it_is_decided(facts: Facts) -> None:
    devices = Devices(facts)
    device_code, user_code = await devices.ask({"client": "tv"}, expires=NOW + 600)
    waiting = await devices.waiting(user_code, now=NOW)
    assert waiting is not None
    assert waiting == await devices.find(device_code)
    assert waiting.request == {"client": "tv"}
    assert await devices.waiting(user_code, now=NOW + 600) is None
    assert await devices.decide(waiting.name, {"allowed": False})
    assert not await devices.decide(waiting.name, {"allowed": True}), "a decision stays"
    assert await devices.decision(waiting.name) == {"allowed": False}
    assert await devices.waiting(user_code, now=NOW) is None
    assert [await devices.collect(waiting.name) for _ in range(2)] == [True, False]


async def test_two_devices_under_one_user_code_are_none(facts: Facts) -> None:
    devices = Devices(facts, entropy=lambda size: bytes(size))
    _, user_code = await devices.ask({}, expires=NOW + 600)
    await devices.ask({}, expires=NOW + 601)
    assert await devices.waiting(user_code, now=NOW) is None


@pytest.mark.parametrize("typed", ["bcdf-ghjk", "BCDFGHJK", " bcdf ghjk "])
def test_a_user_code_is_read_however_it_is_typed(typed: str) -> None:
    assert names.read_user_code(typed) == "BCDFGHJK"
    assert names.shown("BCDFGHJK") == "BCDF-GHJK"


@pytest.mark.parametrize("typed", ["", "BCDF", "BCDFGHJKL", "BCDFGHJ0", "BCDFGHJI", "ÄCDFGHJK"])
def test_what_can_not_be_a_user_code_is_none(typed: str) -> None:
    assert names.read_user_code(typed) is None


async def test_a_registration_is_found_until_it_expires(facts: Facts) -> None:
    registrations = Registrations(facts)
    metadata: Mapping[str, object] = {"client_name": "X"}
    client_id = await registrations.add(metadata, expires=NOW + 60)
    assert len(client_id) <= 64
    assert await Registrations(facts).find(client_id, now=NOW) == metadata
    assert await registrations.find(client_id, now=NOW + 60) is None
    assert await registrations.find("../x", now=NOW) is None


async def test_the_memory_store_takes_every_name_of_ours() -> None:
    blobs = MemoryBlobs()
    await Facts(blobs).tell("codes/x/issued", {})
    with pytest.raises(Exists):
        await blobs.create("codes/x/issued", b"")
