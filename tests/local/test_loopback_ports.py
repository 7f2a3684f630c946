"""Ports are chosen once, kept, and given up only when somebody else has them."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from demarkus_operator.local.ports import Ports, Protocol


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_a_port_is_the_same_at_the_next_start(tmp_path: Path, protocol: Protocol) -> None:
    first = Ports(tmp_path / "ports.json").choose("a", protocol)
    assert Ports(tmp_path / "ports.json").choose("a", protocol) == first


@pytest.mark.parametrize(("protocol", "kind"), [("tcp", socket.SOCK_STREAM), ("udp", socket.SOCK_DGRAM)])
def test_a_port_that_somebody_took_is_replaced_for_good(
    tmp_path: Path, protocol: Protocol, kind: socket.SocketKind
) -> None:
    first = Ports(tmp_path / "ports.json").choose("a", protocol)
    with socket.socket(socket.AF_INET, kind) as taken:
        taken.bind(("127.0.0.1", first))
        if protocol == "tcp":
            taken.listen()
        second = Ports(tmp_path / "ports.json").choose("a", protocol)
        assert second != first
    assert Ports(tmp_path / "ports.json").choose("a", protocol) == second


def test_a_port_with_connections_of_the_last_run_is_free(tmp_path: Path) -> None:
    ports = Ports(tmp_path / "ports.json")
    port = ports.choose("a", "tcp")
    with socket.create_server(("127.0.0.1", port)) as server:
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = server.accept()
        accepted.close()  # the server's side closes first and lingers in TIME-WAIT
        client.close()
    assert ports.choose("a", "tcp") == port


def test_names_get_different_ports(tmp_path: Path) -> None:
    ports = Ports(tmp_path / "ports.json")
    chosen = [ports.choose(f"default/w{n}/mark", "udp") for n in range(20)]
    assert len(set(chosen)) == 20
    assert ports.below("default/w1/") == [("default/w1/mark", chosen[1])]
    assert ports.known("default/w3/mark") == chosen[3]


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a": "x", "b": 70000}'])
def test_a_damaged_file_costs_only_the_choice(tmp_path: Path, content: str) -> None:
    (tmp_path / "ports.json").write_text(content)
    assert Ports(tmp_path / "ports.json").choose("a", "tcp") > 0


def test_ports_are_not_those_of_outgoing_connections(tmp_path: Path) -> None:
    assert 20000 <= Ports(tmp_path / "ports.json").choose("a", "tcp") < 30000


def test_the_search_goes_round(tmp_path: Path) -> None:
    ports = Ports(tmp_path / "ports.json", below=lambda count: count - 1)
    last, first = ports.choose("a", "tcp"), ports.choose("b", "tcp")
    assert first < last
