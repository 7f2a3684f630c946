"""broker.yaml: what is read, and that every mistake is named by its field."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from demarkus_base.settings import SettingsError
from demarkus_broker.settings import BrokerSettings, HostPort, load

WORLD = {
    "name": "kitchen",
    "namespace": "team",
    "addresses": ["127.0.0.1:6309"],
    "history": "a" * 32,
    "incarnation": "b" * 32,
}


def a_file(**fields: Any) -> dict[str, Any]:
    return {
        "publicURL": "https://mark.example.com",
        "listen": {"http": "0.0.0.0:8080", "health": "0.0.0.0:8081"},
        "keys": {"directory": "/etc/demarkus/keys"},
        "caBundle": "/etc/demarkus/config/ca.crt",
        "worlds": [WORLD],
    } | fields


def read(document: Any) -> BrokerSettings:
    return load(yaml.safe_dump(document).encode(), source="broker.yaml")


def test_a_full_file_is_read() -> None:
    settings = read(
        a_file(
            worlds=[
                WORLD
                | {
                    "serverName": "kitchen.example",
                    "grantsNotBefore": "2026-11-30T09:00:00Z",
                    "access": {
                        "readers": [{"domains": ["example.com"]}],
                        "writers": [{"groups": ["cooks"], "paths": ["/notes/**"], "operations": ["append", "archive"]}],
                    },
                },
                {key: value for key, value in WORLD.items() if key != "addresses"}
                | {"name": "garden", "service": "garden-pods.team.svc:6309"},
            ],
            generation=7,
            log={"level": "debug"},
        )
    )
    kitchen, garden = settings.worlds
    assert (settings.resource, settings.generation) == ("https://mark.example.com/mcp", 7)
    assert kitchen.addresses == (HostPort("127.0.0.1", 6309),)
    assert (kitchen.tls_name, garden.tls_name) == ("kitchen.example", "garden.team.svc")
    assert kitchen.grants_not_before == datetime(2026, 11, 30, 9, tzinfo=UTC)
    assert kitchen.access.writers[0].operations == ("append", "archive")
    assert garden.service == HostPort("garden-pods.team.svc", 6309)


def test_what_may_be_left_out_has_its_default() -> None:
    settings = read(a_file())
    (world,) = settings.worlds
    assert (world.access.readers, world.access.writers) == ((), ())
    assert read(a_file(worlds=[])).worlds == ()
    writer = read(a_file(worlds=[WORLD | {"access": {"writers": [{"emails": ["a@b.c"]}]}}])).worlds[0].access.writers[0]
    assert (writer.paths, writer.operations) == (("/**",), ("publish",))


def test_times_may_be_yaml_times() -> None:
    text = yaml.safe_dump(a_file(worlds=[WORLD])).replace(
        "name: kitchen", "name: kitchen\n  grantsNotBefore: 2026-11-30T09:00:00Z"
    )
    assert load(text.encode(), source="x").worlds[0].grants_not_before == datetime(2026, 11, 30, 9, tzinfo=UTC)


IDENTITY = {"issuer": "https://accounts.example.com", "clientID": "mark", "clientSecretFile": "/etc/secret"}


@pytest.mark.parametrize(
    "url",
    [
        "https://a.example",
        "https://a.example/",
        "https://a.example:8443",
        "http://127.0.0.1:80",
        "http://[::1]:8",
        "http://localhost:9",
    ],
)
def test_public_urls_that_hold(url: str) -> None:
    assert read(a_file(publicURL=url)).public_url == url.rstrip("/")


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("publicURL", "http://mark.example.com", "publicURL: has to be https"),
        ("publicURL", "https://mark.example.com/mcp", "publicURL: expected only scheme and host"),
        ("publicURL", "https://Mark.example.com", "publicURL: expected only scheme and host in lower case"),
        ("publicURL", "https://me@mark.example.com", "publicURL: expected only scheme and host"),
        ("publicURL", "https://mark.example.com?x", "publicURL: expected only scheme and host"),
        ("publicURL", "https://mark.example.com:99999", "publicURL: expected only scheme and host"),
        ("publicURL", "ftp://127.0.0.1", "publicURL: has to be https"),
        ("publicURL", "", "publicURL: expected only scheme and host"),
        ("publicURL", 7, "publicURL: Input should be a valid string"),
        ("publicUrl", "https://a.example", "publicUrl: unknown field"),
        ("listen", {"http": "8080", "health": "x:1"}, "listen.http: expected host:port"),
        ("listen", {"http": "h:99999", "health": "x:1"}, "listen.http: expected host:port"),
        ("listen", {"http": "::1:80", "health": "x:1"}, "listen.http: expected host:port, an IPv6 address in brackets"),
        ("listen", {"http": "h:1"}, "listen.health: is missing"),
        ("listen", {"http": "h:1", "health": "h:2", "mark": "h:3"}, "listen.mark: unknown field"),
        ("keys", {}, "keys.directory: is missing"),
        ("generation", -1, "generation:"),
        ("log", {"level": "loud"}, "log.level:"),
        ("worlds", [WORLD, WORLD], "two worlds are called 'kitchen'"),
        ("worlds", [WORLD | {"name": "Kitchen"}], "worlds[0].name: expected a DNS label"),
        ("worlds", [WORLD, WORLD | {"name": "b", "history": "x"}], "worlds[1].history:"),
        ("worlds", [WORLD | {"incarnation": "B" * 32}], "worlds[0].incarnation:"),
        ("worlds", [WORLD | {"service": "h:1"}], "worlds[0]: give either addresses"),
        ("worlds", [WORLD | {"addresses": ["h"]}], "worlds[0].addresses[0]: expected host:port"),
        ("worlds", [WORLD | {"port": 1}], "worlds[0].port: unknown field"),
        ("worlds", [WORLD | {"grantsNotBefore": "yesterday"}], "worlds[0].grantsNotBefore: expected an RFC 3339 time"),
        ("worlds", [WORLD | {"grantsNotBefore": "2026-11-30T09:00:00"}], "worlds[0].grantsNotBefore: expected an RFC"),
        ("login", {}, "login: unknown field"),
        ("identity", IDENTITY | {"issuer": "http://accounts.example.com"}, "identity.issuer: expected the provider's"),
        ("identity", IDENTITY | {"maxLogin": "long"}, "identity.maxLogin: expected a duration"),
        ("identity", IDENTITY | {"rules": [{"paths": ["/**"]}]}, "identity.rules[0].paths: unknown field"),
        ("state", {"directory": "/x", "gcs": {"url": "gs://logins"}}, "state: give exactly one of"),
        ("identity", IDENTITY, "identity needs state: where logins are kept"),
        ("webClients", [{"clientID": "chat", "name": "Chat"}], "webClients[0].secretHash: is missing"),
        ("worlds", [WORLD | {"access": {"owners": []}}], "worlds[0].access.owners: unknown field"),
        ("worlds", [WORLD | {"access": {"writers": [{}]}}], "worlds[0].access.writers[0]: names nobody"),
        ("worlds", [WORLD | {"access": {"readers": [{"paths": ["/**"]}]}}], "worlds[0].access.readers[0]: names"),
        ("worlds", [WORLD | {"access": {"readers": [{"emails": []}]}}], "worlds[0].access.readers[0].emails:"),
        ("worlds", [WORLD | {"access": {"writers": [{"claims": {}}]}}], "worlds[0].access.writers[0].claims:"),
        (
            "worlds",
            [WORLD | {"access": {"readers": [{"emails": ["a@b.c"], "operations": ["read"]}]}}],
            "worlds[0].access.readers[0].operations: unknown field",
        ),
        (
            "worlds",
            [WORLD | {"access": {"writers": [{"emails": ["a@b.c"], "operations": ["delete"]}]}}],
            "worlds[0].access.writers[0].operations[0]:",
        ),
        (
            "worlds",
            [WORLD | {"access": {"writers": [{"emails": ["a@b.c"], "paths": ["/a**"]}]}}],
            "worlds[0].access.writers[0].paths[0]:",
        ),
    ],
    ids=str,
)  # fmt: skip
def test_a_mistake_is_named_by_its_field(field: str, value: Any, says: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(says)) as refused:
        read(a_file(**{field: value}))
    assert str(refused.value).startswith("broker.yaml: ")


def test_all_mistakes_are_named_at_once() -> None:
    with pytest.raises(SettingsError) as refused:
        read(a_file(generation=-1, lgo={}, listen={"http": "x", "health": "y"}))
    assert all(field in str(refused.value) for field in ("generation", "lgo", "listen.http", "listen.health"))


def test_a_mistake_does_not_show_what_was_written_there() -> None:
    with pytest.raises(SettingsError) as refused:
        read(a_file(keys={"directory": ["hunter2"]}, token="hunter2"))
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("text", ["worlds: [", "a: b: c", "- x", "", "\t"])
def test_what_is_no_yaml_mapping_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"broker\.yaml: "):
        load(text.encode(), source="broker.yaml")


def test_broken_yaml_names_the_line() -> None:
    with pytest.raises(SettingsError, match="line 2, column"):
        load(b"listen:\n  http: ]\n", source="broker.yaml")
