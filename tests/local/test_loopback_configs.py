"""A pod's configuration is changed for this machine in paths and addresses, and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from demarkus_operator.local.configs import Loopback, localised

LOOPBACK = Loopback(
    {"/etc/demarkus/config": Path("/s/config"), "/etc/demarkus/tls": Path("/s/tls"), "/var/lib/demarkus": Path("/s/v")},
    {"mark": "127.0.0.1:1001", "health": "127.0.0.1:1002"},
)


def changed(name: str, config: dict[str, Any], loopback: Loopback = LOOPBACK) -> dict[str, Any]:
    result: dict[str, Any] = yaml.safe_load(localised(name, yaml.safe_dump(config), loopback))
    return result


def test_a_world_gets_paths_and_listeners_of_its_own() -> None:
    world = {
        "name": "tea",
        "identity": {"history": "00000000000000000000000000000001", "keyFile": "/elsewhere/world.key"},
        "store": {"directory": "/var/lib/demarkus"},
        "reads": "scoped",
        "tls": {"certificate": "/etc/demarkus/tls/tls.crt", "key": "/etc/demarkus/tls/tls.key"},
        "tokens": ["/etc/demarkus/config/tokens.toml", "/etc/demarkus/configuration"],
        "keySet": "/etc/demarkus/config/keys.json",
        "managementKeys": "/etc/demarkus/config/management.json",
        "grantsNotBefore": "2026-01-01T00:00:00Z",
        "limits": {"requestTimeout": "10s", "rate": {"perSecond": 1, "burst": 2}},
        "listen": {"mark": "0.0.0.0:6309", "health": "0.0.0.0:8081"},
    }
    assert changed("world.yaml", world) == {
        **world,
        "store": {"directory": "/s/v"},
        "tls": {"certificate": "/s/tls/tls.crt", "key": "/s/tls/tls.key"},
        "tokens": ["/s/config/tokens.toml", "/etc/demarkus/configuration"],
        "keySet": "/s/config/keys.json",
        "managementKeys": "/s/config/management.json",
        "listen": {"mark": "127.0.0.1:1001", "health": "127.0.0.1:1002"},
    }


def test_a_gateway_gets_its_url_and_the_addresses_of_worlds() -> None:
    loopback = Loopback(
        LOOPBACK.mounts,
        {"http": "127.0.0.1:1003"},
        public_url="http://127.0.0.1:1003",
        addresses=lambda service: {"tea-pods.default.svc:6309": ["127.0.0.1:1001"]}.get(service, ["127.0.0.1:1"]),
    )
    tea = {"name": "tea", "access": {"writers": [{"emails": ["a@example.com"], "paths": ["/var/lib/demarkus/**"]}]}}
    broker = {
        "publicURL": "https://mark.example.com",
        "keys": {"directory": "/etc/demarkus/keys"},
        "caBundle": "/etc/demarkus/config/ca.crt",
        "worlds": [{**tea, "service": "tea-pods.default.svc:6309"}, {"name": "x", "addresses": ["10.0.0.1:6309"]}],
        "generation": 7,
        "listen": {"http": "0.0.0.0:8080"},
    }
    assert changed("broker.yaml", broker, loopback) == {
        **broker,
        "publicURL": "http://127.0.0.1:1003",
        "caBundle": "/s/config/ca.crt",
        "worlds": [{**tea, "addresses": ["127.0.0.1:1001"]}, {"name": "x", "addresses": ["127.0.0.1:1"]}],
        "listen": {"http": "127.0.0.1:1003"},
    }


@pytest.mark.parametrize("text", ["- a", "{", ""])
def test_what_is_not_a_mapping_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"world\.yaml"):
        localised("world.yaml", text, LOOPBACK)
