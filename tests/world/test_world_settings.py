"""`world.yaml`: what is accepted, and the sentence a mistake gets."""

from typing import Any

import pytest
import yaml

from demarkus_world.settings import (
    HistoryMode,
    HostPort,
    ReadMode,
    Settings,
    SettingsError,
    changes_needing_restart,
    parse_settings,
)


def a_config(**changes: Any) -> bytes:
    """A small valid `world.yaml`; a change of None takes the field out."""
    fields: dict[str, Any] = {
        "name": "kettles",
        "identity": {"history": "0a" * 16, "incarnation": "1b" * 16},
        "store": {"directory": "/var/lib/demarkus"},
        "tls": {"certificate": "/etc/demarkus/tls/tls.crt", "key": "/etc/demarkus/tls/tls.key"},
    }
    fields |= changes
    return yaml.safe_dump({name: value for name, value in fields.items() if value is not None}).encode()


def read(**changes: Any) -> Settings:
    return parse_settings(a_config(**changes), source="world.yaml")


def problems(**changes: Any) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        read(**changes)
    return caught.value.problems


def test_defaults_are_the_safe_ones() -> None:
    settings = read()
    assert settings.reads is ReadMode.UNIVERSE
    assert settings.history is HistoryMode.PROTECTED
    assert settings.limits.request_timeout == 10
    assert (settings.limits.rate.per_second, settings.limits.rate.burst) == (50, 100)
    assert settings.listen.mark.port == 6309
    assert settings.listen.health.port == 8081


def test_every_field_is_read() -> None:
    settings = read(
        store={"memory": {}},
        reads="public",
        history="compatible",
        limits={"maxStreams": 128, "requestTimeout": "1500ms", "rate": {"perSecond": 0, "burst": 7}},
        listen={"mark": "[::1]:0", "health": "localhost:8081"},
        tokens=["/a.toml", "/b.toml"],
        keySet="/keys.json",
        grantsNotBefore="2026-01-01T01:00:00+01:00",
        log={"level": "debug"},
    )
    assert settings.limits.request_timeout == 1.5
    assert settings.listen.mark == HostPort("::1", 0)
    assert settings.listen.health == HostPort("localhost", 8081)
    assert settings.grants_not_before_seconds == 1767225600
    assert [str(path) for path in settings.tokens] == ["/a.toml", "/b.toml"]


def test_only_a_stand_in_on_loopback_is_asked_without_a_credential() -> None:
    def bucket(**fields: str) -> Any:
        return read(store={"gcs": {"url": "gs://kettles/worlds/tea", **fields}}).store.gcs

    assert not bucket().anonymous
    assert not bucket(service="https://storage-kettles.p.googleapis.com").anonymous
    assert bucket(service="http://127.0.0.1:4443/").anonymous
    assert bucket(service="http://127.0.0.1:4443/").service == "http://127.0.0.1:4443"


def test_times_need_no_quotes() -> None:
    settings = parse_settings(a_config() + b"grantsNotBefore: 2026-01-01T00:00:00Z\n", source="world.yaml")
    assert settings.grants_not_before_seconds == 1767225600


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"colour": "red"}, "world.yaml: colour: unknown field"),
        ({"limits": {"rate": {"perMinute": 3}}}, "world.yaml: limits.rate.perMinute: unknown field"),
        ({"max_streams": 1}, "world.yaml: max_streams: unknown field"),
        ({"tls": None}, "world.yaml: tls: required field is missing"),
        ({"store": {}}, "world.yaml: store: give exactly one of directory, gcs, memory"),
        (
            {"store": {"directory": "/d", "memory": {}}},
            "world.yaml: store: give exactly one of directory, gcs, memory",
        ),
        (
            {"store": {"memory": {}, "gcs": {"url": "gs://kettles"}}},
            "world.yaml: store: give exactly one of directory, gcs, memory",
        ),
        ({"store": {"gcs": {}}}, "world.yaml: store.gcs.url: required field is missing"),
        ({"store": {"gcs": {"url": "s3://kettles"}}}, "world.yaml: store.gcs.url: 's3://kettles' does not match"),
        ({"store": {"gcs": {"url": "gs://kettles?x"}}}, "world.yaml: store.gcs.url: 'gs://kettles?x' does not match"),
        (
            {"store": {"gcs": {"url": "gs://kettles", "service": "http://storage.example.com"}}},
            'world.yaml: store.gcs.service: "http://storage.example.com": plain http only on loopback',
        ),
        (
            {"store": {"gcs": {"url": "gs://kettles", "service": "https://storage.example.com/v1"}}},
            'world.yaml: store.gcs.service: expected an address such as "https://storage.example.com"',
        ),
        ({"identity": {"history": "0a" * 16, "incarnation": "x"}}, "world.yaml: identity.incarnation: 'x'"),
        ({"reads": "private"}, "world.yaml: reads: Input should be 'public', 'universe' or 'scoped', got 'private'"),
        ({"limits": {"requestTimeout": "10"}}, "world.yaml: limits.requestTimeout: expected a duration such as"),
        ({"listen": {"mark": ":6309"}}, 'world.yaml: listen.mark: expected "host:port", got ":6309"'),
        ({"listen": {"mark": "6309"}}, 'world.yaml: listen.mark: expected "host:port", got "6309"'),
        ({"listen": {"mark": "::1:6309"}}, "world.yaml: listen.mark: "),
        ({"grantsNotBefore": "yesterday"}, "world.yaml: grantsNotBefore: expected an RFC 3339 time"),
    ],
)
def test_a_mistake_names_its_field(changes: dict[str, Any], problem: str) -> None:
    found = problems(**changes)
    assert len(found) == 1
    assert found[0].startswith(problem)


def test_each_problem_gets_one_sentence() -> None:
    assert len(problems(colour="red", name=None, reads="private")) == 3


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "expected a mapping"),
        (b"- name", "expected a mapping"),
        (b"name: a: b", "line 1"),
        (b"name: a\nname: b\n", "line 2: name: given twice"),
        (b"[x]: y", "line 1: a field name has to be plain text"),
        (b"\xff\xfe\xfd", "not valid YAML"),
        (b"#" * (1 << 20) + b"\n", "larger than"),
    ],
)
def test_what_is_not_yaml_is_one_problem(data: bytes, problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_settings(data, source="world.yaml")
    assert len(caught.value.problems) == 1
    assert problem in caught.value.problems[0]


def test_a_running_world_takes_over_only_live_fields() -> None:
    old = read()
    assert changes_needing_restart(old, read(reads="public", log={"level": "debug"})) == ()
    assert changes_needing_restart(old, read(limits={"rate": {"perSecond": 1}})) == ()
    assert changes_needing_restart(old, read(history="compatible")) == ("history",)
    assert changes_needing_restart(old, read(limits={"maxStreams": 3})) == ("limits.maxStreams",)
