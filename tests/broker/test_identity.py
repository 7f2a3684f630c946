"""From claims to rights: who is a reader, who a writer, of what."""

from __future__ import annotations

from typing import Any

import pytest

from demarkus_broker.identity import paths_for, permits, permits_anywhere, person_of, rights
from demarkus_broker.settings import Access

GOOGLE = {"email": "ann@corp.example", "email_verified": True, "hd": "corp.example"}
CONSUMER = {"email": "ann@corp.example", "email_verified": True, "hd": ""}
ENTRA = {"preferred_username": "ann@corp.example", "tid": "t-1", "groups": ["g-1", "G-2"], "roles": ["Writer"]}
KEYCLOAK = {"email": "Ann@Corp.Example ", "email_verified": True, "groups": ["/cooks"], "level": 3, "staff": True}


def person(**claims: Any) -> Any:
    return person_of({"iss": "https://idp.example", "sub": "ann"} | claims)


def readers(**entry: Any) -> Access:
    return Access.model_validate({"readers": [entry]})


@pytest.mark.parametrize(
    ("claims", "entry", "means"),
    [
        (GOOGLE, {"emails": ["ann@corp.example"]}, True),
        (GOOGLE, {"emails": [" ANN@corp.example"]}, True),
        (GOOGLE, {"emails": ["bob@corp.example"]}, False),
        (GOOGLE | {"email_verified": False}, {"emails": ["ann@corp.example"]}, False),
        (GOOGLE | {"email_verified": "true"}, {"emails": ["ann@corp.example"]}, False),
        ({"email": "ann@corp.example"}, {"emails": ["ann@corp.example"]}, False),
        ({"email": ["ann@corp.example"], "email_verified": True}, {"emails": ["ann@corp.example"]}, False),
        ({}, {"emails": ["None"]}, False),
        (GOOGLE, {"domains": ["corp.example"]}, True),
        (GOOGLE, {"domains": ["Corp.Example"]}, True),
        (GOOGLE, {"domains": ["example"]}, False),
        (CONSUMER, {"domains": ["corp.example"]}, False),
        (GOOGLE | {"hd": "other.example"}, {"domains": ["corp.example"]}, False),
        (KEYCLOAK, {"domains": ["corp.example"]}, True),
        (KEYCLOAK | {"email_verified": False}, {"domains": ["corp.example"]}, False),
        ({"email": "ann@evil@corp.example", "email_verified": True}, {"domains": ["corp.example"]}, False),
        (ENTRA, {"groups": ["g-2"]}, True),
        (ENTRA, {"groups": ["g-3"]}, False),
        (ENTRA, {"groups": ["g"]}, False),
        ({"groups": "cooks"}, {"groups": ["Cooks"]}, True),
        ({}, {"groups": ["cooks"]}, False),
        (ENTRA, {"claims": {"tid": ["t-1"]}}, True),
        (ENTRA, {"claims": {"tid": ["t-0", "t-1"], "roles": ["Writer"]}}, True),
        (ENTRA, {"claims": {"tid": ["t-1"], "roles": ["writer"]}}, False),
        (KEYCLOAK, {"claims": {"level": ["3"], "staff": ["true"]}}, True),
        (KEYCLOAK, {"claims": {"staff": ["True"]}}, False),
        ({"nested": {"a": "b"}}, {"claims": {"nested": ["b"]}}, False),
        ({"none": None}, {"claims": {"none": ["None"]}}, False),
        (GOOGLE, {"emails": ["ann@corp.example"], "groups": ["cooks"]}, False),
        (GOOGLE | {"groups": ["cooks"]}, {"emails": ["ann@corp.example"], "groups": ["cooks"]}, True),
    ],
    ids=str,
)
def test_an_entry_means_whom_all_of_its_keys_match(claims: dict[str, Any], entry: dict[str, Any], means: bool) -> None:
    assert permits_anywhere(rights(person(**claims), readers(**entry)), "read") is means


def test_one_matching_entry_is_enough() -> None:
    access = Access.model_validate({"readers": [{"emails": ["bob@x.example"]}, {"groups": ["cooks"]}]})
    assert rights(person(groups=["cooks"]), access)


def test_without_readers_every_admitted_identity_reads_everything_and_nobody_writes() -> None:
    allowed = rights(person(), Access())
    assert permits(allowed, "read", "/any/where.md")
    assert not any(permits_anywhere(allowed, word) for word in ("append", "write", "archive", "publish", "prune"))


def test_with_readers_everybody_else_has_nothing() -> None:
    assert rights(person(**GOOGLE), readers(groups=["cooks"])) == ()


def test_a_writer_reads_where_they_may_write() -> None:
    access = Access.model_validate(
        {"readers": [{"groups": ["cooks"]}], "writers": [{"emails": ["ann@corp.example"], "paths": ["/notes/**"]}]}
    )
    allowed = rights(person(**GOOGLE), access)
    assert permits(allowed, "read", "/notes/tea.md")
    assert not permits(allowed, "read", "/plans.md")


@pytest.mark.parametrize(
    ("given", "covers"),
    [
        ("publish", {"write", "append", "archive", "publish"}),
        ("write", {"write", "append"}),
        ("append", {"append"}),
        ("archive", {"archive"}),
        ("review", {"review"}),
        ("prune", {"prune"}),
    ],
)
def test_what_the_words_of_a_writer_cover(given: str, covers: set[str]) -> None:
    access = Access.model_validate({"writers": [{"emails": ["ann@corp.example"], "operations": [given]}]})
    allowed = rights(person(**GOOGLE), access)
    words = {"write", "append", "archive", "publish", "prune", "review"}
    assert {word for word in words if permits(allowed, word, "/a.md")} == covers


def test_rights_are_by_path() -> None:
    access = Access.model_validate(
        {
            "writers": [
                {"emails": ["ann@corp.example"], "paths": ["/notes/**", "/log.md"]},
                {"groups": ["cooks"], "paths": ["/menu/*"], "operations": ["append"]},
            ]
        }
    )
    allowed = rights(person(**GOOGLE, groups=["cooks"]), access)
    assert permits(allowed, "write", "/notes/a/b.md")
    assert permits(allowed, "append", "/menu/monday.md")
    assert not permits(allowed, "write", "/menu/monday.md")
    assert not permits(allowed, "append", "/menu/old/monday.md")
    assert paths_for(allowed, "append") == ("/notes/**", "/log.md", "/menu/*")


def test_equal_rights_are_equal_values() -> None:
    """Grants are kept under them."""
    access = Access.model_validate({"writers": [{"emails": ["ann@corp.example"]}]})
    assert rights(person(**GOOGLE), access) == rights(person(**GOOGLE), access)
    assert len({rights(person(**GOOGLE), access), rights(person(**GOOGLE), access)}) == 1
