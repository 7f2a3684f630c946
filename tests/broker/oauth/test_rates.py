"""How much is taken of one asker: by person once they are signed in, by address before that."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demarkus_broker.limits import MOST, Buckets, address_of
from demarkus_broker.settings import LimitSettings, RateSettings

NONE = RateSettings()


def limit(site: Any, **fields: Any) -> None:
    limits = LimitSettings.model_validate(fields)
    site.settings = site.settings.model_copy(update={"limits": limits})


def test_a_bucket_gives_its_burst_and_then_its_rate() -> None:
    buckets, rate = Buckets(per_second=0, burst=1), RateSettings(perSecond=2, burst=3)
    assert [buckets.wait("a", rate, now=0) for _ in range(4)] == [None, None, None, 1]
    assert buckets.wait("b", rate, now=0) is None
    assert [buckets.wait("a", rate, now=1) for _ in range(3)] == [None, None, 1]
    assert buckets.wait("a", rate, now=-1000) == 1, "a clock that goes back gives nothing"


def test_no_bound_is_no_bound() -> None:
    assert all(Buckets(per_second=0, burst=1).wait("a", NONE, now=0) is None for _ in range(100))
    lifted = RateSettings(perSecond=0)
    assert all(Buckets(per_second=1, burst=1).wait("a", lifted, now=0) is None for _ in range(100))


def test_the_map_is_bounded() -> None:
    buckets = Buckets(per_second=1, burst=1)
    for n in range(MOST + 10):
        buckets.wait(str(n), NONE, now=0)
    assert buckets.wait("0", NONE, now=0) is None
    assert buckets.wait(str(MOST + 9), NONE, now=0) == 1


@given(st.lists(st.floats(0, 3), max_size=60), st.integers(1, 5), st.integers(1, 5))
def test_never_more_than_burst_and_rate(steps: list[float], rate: int, burst: int) -> None:
    buckets, settings, now, taken = Buckets(per_second=0, burst=1), RateSettings(perSecond=rate, burst=burst), 0.0, 0
    for step in steps:
        now += step
        taken += buckets.wait("a", settings, now=now) is None
    assert taken <= burst + now * rate + 1e-6


@pytest.mark.parametrize(
    ("forwarded", "trusted", "address"),
    [
        ([], 0, "10.0.0.9"),
        (["1.1.1.1"], 0, "10.0.0.9"),
        (["1.1.1.1"], 1, "1.1.1.1"),
        (["6.6.6.6, 1.1.1.1"], 1, "1.1.1.1"),
        (["6.6.6.6", "1.1.1.1"], 1, "1.1.1.1"),
        (["6.6.6.6, 1.1.1.1, 10.0.0.2"], 2, "1.1.1.1"),
        (["1.1.1.1"], 2, "10.0.0.9"),
        (["nonsense"], 1, "10.0.0.9"),
        ([""], 1, "10.0.0.9"),
        (["2606:4700::1"], 1, "2606:4700::/64"),
        (["2606:4700::ffff"], 1, "2606:4700::/64"),
        (["[2606:4700::1]"], 1, "2606:4700::/64"),
        (["::ffff:1.1.1.1"], 1, "1.1.1.1"),
    ],
)
def test_the_address_is_what_the_first_trusted_proxy_saw(forwarded: list[str], trusted: int, address: str) -> None:
    """What a sender writes into the header itself stands before that and is not looked at."""
    assert address_of("10.0.0.9", forwarded, trusted_proxies=trusted) == address


async def test_an_address_that_registers_without_end_has_to_wait(site: Any) -> None:
    limit(site, address={"perSecond": 1, "burst": 5}, trustedProxies=1)
    headers = {"X-Forwarded-For": "6.6.6.6, 1.1.1.1"}
    body = {"redirect_uris": ["http://127.0.0.1/cb"]}
    answers = [await site.ask("POST", "/register", json=body, headers=headers) for _ in range(8)]
    assert [answer.status_code for answer in answers] == [201] * 5 + [429] * 3
    assert int(answers[-1].headers["retry-after"]) >= 1
    other = {"X-Forwarded-For": "6.6.6.6, 2.2.2.2"}
    assert (await site.ask("POST", "/register", json=body, headers=other)).status_code == 201
    site.clock.at += 1
    assert (await site.ask("POST", "/register", json=body, headers=headers)).status_code == 201


async def test_guessing_bearers_and_user_codes_is_counted_by_address(site: Any) -> None:
    limit(site, address={"perSecond": 1, "burst": 5})
    assert [(await site.call("guess")).status_code for _ in range(6)] == [401] * 5 + [429]
    site.clock.at += 3
    answers = [await site.browser().go("POST", "/device", data={"user_code": "BCDF-GHJK"}) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [400] * 3 + [429]


async def test_a_person_who_asks_too_much_has_to_wait_and_nobody_else(site: Any) -> None:
    _, ann = await site.signed_in()
    site.company.claims = {"sub": "bob-1"}
    _, bob = await site.signed_in()
    limit(site, subject={"perSecond": 1, "burst": 3})
    answers = [await site.call(ann["access_token"]) for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200] * 3 + [429] * 2
    assert (await site.call(bob["access_token"])).status_code == 200
    assert "www-authenticate" not in answers[-1].headers, "the token is not what is wrong"
