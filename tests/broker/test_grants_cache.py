"""Grants: one for each person, world and set of rights; kept for a while; never another's."""

from __future__ import annotations

from typing import Any

import pytest

from demarkus_broker.worlds.directory import Directory, Entry
from demarkus_broker.worlds.grants import KEPT, LIFE, Grants
from mark_protocol.grants import GrantError, KeySet, verify_grant
from mark_protocol.grants import public_jwks as jwks


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def grants(clock: Clock) -> Grants:
    return Grants(now=clock)


@pytest.fixture
def sign(grants: Grants, key_files: Any) -> Any:
    keys = key_files.load()
    return lambda person, entry: grants.grant(person, entry, keys=keys, issuer=key_files.public_url)


def an_entry(world: Any, person: Any, *, generation: int = 0) -> Entry:
    entry = Directory([world], generation=generation).find(world.name, person)
    assert entry is not None
    return entry


def test_a_grant_says_who_may_do_what_where_and_for_how_long(
    sign: Any, clock: Clock, a_person: Any, a_world: Any, key_files: Any
) -> None:
    import json

    world = a_world(access={"writers": [{"emails": ["ann@example.com"], "paths": ["/notes/**"]}]})
    person = a_person("ann")
    text = sign(person, an_entry(world, person)).text
    key_set = KeySet.from_jwks(json.dumps(jwks([key_files.grant.public_key()])).encode())
    audience = f"{world.history}/{world.incarnation}"
    grant = verify_grant(text, key_set, audience=audience, now=int(clock.now))
    assert (grant.issuer, grant.user) == ("https://mark.example.com", "ann@example.com")
    assert grant.subject == key_files.load().label("https://mark.example.com", "ann")
    assert grant.expires_at - grant.issued_at == LIFE
    assert grant.permits("read", "/anything.md")
    assert grant.permits("publish", "/notes/tea.md")
    assert not grant.permits("publish", "/plans.md")
    with pytest.raises(GrantError):
        verify_grant(text, key_set, audience=audience, now=int(clock.now) + LIFE)


def test_a_grant_is_used_again(sign: Any, a_person: Any, a_world: Any, clock: Clock, grants: Grants) -> None:
    person = a_person()
    first = sign(person, an_entry(a_world(), person))
    clock.now += KEPT - 1
    assert sign(person, an_entry(a_world(), person)) is first
    assert grants.signed == 1


def test_a_grant_is_replaced_well_before_it_ends(sign: Any, a_person: Any, a_world: Any, clock: Clock) -> None:
    person = a_person()
    first = sign(person, an_entry(a_world(), person))
    clock.now += KEPT + 1
    assert KEPT + 60 <= LIFE
    assert sign(person, an_entry(a_world(), person)).issued_at > first.issued_at


def test_whatever_it_depends_on_makes_another_grant(sign: Any, a_person: Any, a_world: Any, grants: Grants) -> None:
    ann = a_person("ann")
    writers = {"writers": [{"emails": ["ann@example.com"]}]}
    variants = [
        (ann, a_world(), 0),
        (ann, a_world(), 1),
        (a_person("bob"), a_world(), 0),
        (a_person("ann", iss="https://other.example"), a_world(), 0),
        (a_person("ann", email="ann@other.example"), a_world(), 0),
        (ann, a_world("garden"), 0),
        (ann, a_world(history="f" * 32), 0),
        (ann, a_world(incarnation="f" * 32), 0),
        (ann, a_world(access=writers), 0),
    ]
    texts = {
        sign(person, an_entry(world, person, generation=generation)).text for person, world, generation in variants
    }
    assert grants.signed == len(variants)
    assert len(texts) == len(variants) - 2  # generation and name are not in a grant: history and incarnation are


def test_the_number_kept_is_bounded(clock: Clock, key_files: Any, a_person: Any, a_world: Any) -> None:
    grants, keys = Grants(now=clock, most=10), key_files.load()
    for number in range(30):
        person = a_person(f"person{number}")
        grants.grant(person, an_entry(a_world(), person), keys=keys, issuer="https://mark.example.com")
    assert len(grants) == 10


def test_a_refused_grant_is_forgotten_but_not_its_successor(
    grants: Grants, sign: Any, a_person: Any, a_world: Any, clock: Clock, key_files: Any
) -> None:
    person, keys = a_person(), key_files.load()
    entry = an_entry(a_world(), person)
    refused = sign(person, entry)
    grants.forget(person, entry, refused, keys=keys)
    clock.now += 1
    successor = sign(person, entry)
    grants.forget(person, entry, refused, keys=keys)
    assert sign(person, entry) is successor


def test_a_grant_shows_nothing_of_itself(sign: Any, a_person: Any, a_world: Any) -> None:
    person = a_person()
    grant = sign(person, an_entry(a_world(), person))
    assert grant.text not in repr(grant)
