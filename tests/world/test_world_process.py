"""A whole world as a process: start-up errors, probes, reloads, drain, its tie to its starter."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mark_protocol.grants import public_jwks
from mark_protocol.transport.certificates import self_signed
from mark_protocol.transport.port import TransportError

COMMAND = str(Path(sys.executable).with_name("demarkus-world"))
WRITER = ("admin", "/**", ("publish",))


def run(config: Path) -> subprocess.CompletedProcess[str]:
    """A start that is expected to fail."""
    command = [COMMAND, "serve", "--config", str(config)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)


class TestStartErrors:
    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"colour": "red"}, "world.yaml: colour: unknown field"),
            ({"tokens": ["/nowhere/tokens.toml"]}, "tokens: /nowhere/tokens.toml: No such file or directory"),
            ({"keySet": "/nowhere/keys.json"}, "keySet: /nowhere/keys.json: No such file or directory"),
            ({"tls": {"certificate": "/nowhere/a", "key": "/nowhere/b"}}, "tls: /nowhere/a: No such file"),
            ({"store": {"directory": "/nowhere/data"}}, "store.directory: /nowhere/data does not exist"),
        ],
    )
    def test_a_20_c_37_what_the_configuration_names_has_to_be_there(
        self, start_world: Callable[..., Any], fields: dict[str, Any], message: str
    ) -> None:
        world = start_world(begin=False)
        world.write_config(**fields)
        ended = run(world.folder / "world.yaml")
        assert ended.returncode == 2
        assert len(ended.stderr.splitlines()) == 1
        assert message in ended.stderr
        assert not world.store.exists()

    def test_each_problem_is_one_line(self, start_world: Callable[..., Any]) -> None:
        world = start_world(begin=False, colour="red", reads="private")
        ended = run(world.folder / "world.yaml")
        assert [line.partition(": ")[0] for line in ended.stderr.splitlines()] == ["demarkus-world"] * 2

    def test_a_missing_configuration_is_named(self, tmp_path: Path) -> None:
        ended = run(tmp_path / "world.yaml")
        assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1)
        assert str(tmp_path / "world.yaml") in ended.stderr

    @pytest.mark.parametrize(
        ("tokens", "message"),
        [
            ("[tokens.a]\nhash = ''\n", "token 'a': hash must be"),
            ("[tokens", "not valid TOML"),
            ("[tokens.a]\nhash = 'sha256-" + "0" * 64 + "'\npaths = ['/a**']\n", "token 'a': paths:"),
        ],
    )
    def test_a_broken_token_file_is_named(self, start_world: Callable[..., Any], tokens: str, message: str) -> None:
        world = start_world(begin=False, tokens=tokens)
        ended = run(world.folder / "world.yaml")
        assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1)
        assert message in ended.stderr

    def test_a_certificate_and_the_key_of_another_are_no_pair(self, start_world: Callable[..., Any]) -> None:
        world = start_world(begin=False)
        (world.folder / "tls.key").write_bytes(self_signed(now=datetime.now(UTC)).key_pem)
        ended = run(world.folder / "world.yaml")
        assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1)
        assert "the key does not belong to the first certificate" in ended.stderr

    def test_the_store_of_another_world_is_left_alone(self, start_world: Callable[..., Any]) -> None:
        world = start_world()
        world.stop()
        before = {path: path.stat().st_mtime_ns for path in world.store.rglob("*.json")}
        world.write_config(identity={"history": "ff" * 16, "incarnation": "1b" * 16})
        ended = run(world.folder / "world.yaml")
        assert ended.returncode == 2
        assert "ff" * 16 in ended.stderr.splitlines()[-1]
        assert {path: path.stat().st_mtime_ns for path in world.store.rglob("*.json")} == before

    def test_a_store_that_is_in_use_may_be_free_later(self, start_world: Callable[..., Any]) -> None:
        world = start_world()
        ended = run(world.folder / "world.yaml")
        assert ended.returncode == 1
        assert "Traceback" not in ended.stderr

    @pytest.mark.parametrize(("field", "kind"), [("mark", socket.SOCK_DGRAM), ("health", socket.SOCK_STREAM)])
    def test_a_port_that_is_taken_is_named(
        self, start_world: Callable[..., Any], field: str, kind: socket.SocketKind
    ) -> None:
        with socket.socket(socket.AF_INET, kind) as taken:
            taken.bind(("127.0.0.1", 0))
            if kind is socket.SOCK_STREAM:
                taken.listen()
            listen = {"mark": "127.0.0.1:0", "health": "127.0.0.1:0", field: f"127.0.0.1:{taken.getsockname()[1]}"}
            world = start_world(begin=False, listen=listen)
            ended = run(world.folder / "world.yaml")
        assert ended.returncode == 1
        assert f"listen.{field}: " in ended.stderr.splitlines()[-1]
        assert "Traceback" not in ended.stderr


class TestProbes:
    async def test_they_tell_identity_addresses_and_what_is_loaded(
        self, start_world: Callable[..., Any], token_file: Callable[..., str]
    ) -> None:
        world = start_world(tokens=token_file(WRITER), reads="public")
        started = world.health()["tokenUses"]
        await world.request("PUBLISH", "/a.md", b"x", auth="admin")
        told = world.health()
        assert told.pop("tokenUses")["admin"] > started["admin"] > 1_700_000_000_000
        assert told.pop("version") == version("demarkus")
        loaded = told.pop("loaded")
        assert told.pop("engine").startswith("portable aioquic")
        assert told.pop("scrub").keys() == {"verifiedThrough", "passes", "versionsRead", "damage"}
        assert told == {
            "ready": True,
            "reasons": [],
            "name": "kettles",
            "history": "0a" * 16,
            "incarnation": "1b" * 16,
            "sequence": 1,
            "store": {"full": False},
            "listen": world.serving["listen"],
            "reloadErrors": {},
        }
        assert loaded["config"] == sha256((world.folder / "world.yaml").read_bytes()).hexdigest()
        assert loaded["tokens"] == sha256((world.folder / "tokens.toml").read_bytes()).hexdigest()
        assert set(loaded) == {"config", "tokens", "tls"}
        assert world.health("/readyz") == "ok\n"
        assert world.health("/livez") == "ok\n"

    async def test_metrics_count_requests(self, start_world: Callable[..., Any]) -> None:
        world = start_world(reads="public")
        await world.request("FETCH", "/none.md")
        text = world.health("/metrics")
        assert 'demarkus_world_requests_total{status="not-found",verb="FETCH"} 1.0' in text
        assert 'demarkus_world_request_seconds_count{verb="FETCH"} 1.0' in text
        assert "demarkus_world_loaded_info{" in text

    def test_an_existing_store_keeps_its_incarnation(self, start_world: Callable[..., Any]) -> None:
        world = start_world()
        world.stop()
        world.write_config(identity={"history": "0a" * 16, "incarnation": "2c" * 16})
        world.start()
        assert world.health()["incarnation"] == "1b" * 16


class TestReloads:
    async def test_c_25_tokens_are_taken_over_when_their_content_changes(
        self, start_world: Callable[..., Any], token_file: Callable[..., str], wait_until: Callable[..., Any]
    ) -> None:
        world = start_world(tokens=token_file(WRITER), reads="public")
        # As a mounted Secret does it: the name is a link, and the link is swapped.
        for number, tokens in enumerate((token_file(("second", "/**", ("publish",))), token_file(WRITER))):
            target = world.folder / f"content-{number}"
            target.write_text(tokens)
            swap = world.folder / "swap"
            swap.symlink_to(target)
            swap.rename(world.folder / "tokens.toml")
            digest = sha256(target.read_bytes()).hexdigest()
            wait_until(
                "the tokens to be loaded", partial(lambda want: world.health()["loaded"]["tokens"] == want, digest)
            )
        answer = await world.request("PUBLISH", "/a.md", b"x", auth="admin")
        assert answer.status == "created"
        answer = await world.request("PUBLISH", "/a.md", b"x", auth="second")
        assert answer.status == "unauthorized"

    async def test_c_25_a_broken_or_missing_file_keeps_the_old_set(
        self, start_world: Callable[..., Any], token_file: Callable[..., str], wait_until: Callable[..., Any]
    ) -> None:
        world = start_world(tokens=token_file(WRITER), reads="public")
        tokens = world.folder / "tokens.toml"
        before, loaded = tokens.read_text(), world.health()["loaded"]
        for break_it in (lambda: tokens.write_text(before[: len(before) // 2]), tokens.unlink):
            break_it()
            wait_until("the problem to be told", lambda: "tokens" in world.health()["reloadErrors"])
            assert world.health()["ready"]
            assert world.health()["loaded"] == loaded
            answer = await world.request("PUBLISH", "/a.md", b"x", auth="admin")
            assert answer.status in ("created", "ok")
            tokens.write_text(before)
            wait_until("the file to be fine again", lambda: not world.health()["reloadErrors"])
        assert [line["level"] for line in world.lines() if "not reloaded" in line["message"]] == ["error"] * 2

    async def test_a_15_a_reload_that_opens_something_is_loud(
        self, start_world: Callable[..., Any], token_file: Callable[..., str], wait_until: Callable[..., Any]
    ) -> None:
        world = start_world(tokens=token_file(WRITER, ("reader", "/vault/**", ("read",))), reads="public")
        await world.request("PUBLISH", "/vault/a.md", b"x", auth="admin")
        assert (await world.request("FETCH", "/vault/a.md")).status == "unauthorized"
        (world.folder / "tokens.toml").write_text(token_file(WRITER))
        warnings = wait_until(
            "the warning", lambda: [line for line in world.lines() if "opens something" in line["message"]]
        )
        assert [line["level"] for line in warnings] == ["warning"]
        assert "/vault/**" in warnings[0]["message"]
        assert (await world.request("FETCH", "/vault/a.md")).status == "ok"

    async def test_the_read_mode_and_the_rate_are_taken_over(
        self, start_world: Callable[..., Any], wait_until: Callable[..., Any]
    ) -> None:
        world = start_world(reads="public")
        world.write_config(reads="universe", limits={"rate": {"perSecond": 0.001, "burst": 1}})
        wait_until("the configuration to be loaded", lambda: world.lines()[-1]["message"] == "config reloaded")
        assert (await world.request("FETCH", "/a.md")).status == "unauthorized"
        assert (await world.request("FETCH", "/a.md")).status == "rate-limited"

    async def test_what_needs_a_restart_keeps_the_old_configuration(
        self, start_world: Callable[..., Any], wait_until: Callable[..., Any]
    ) -> None:
        world = start_world(reads="public")
        loaded = world.health()["loaded"]
        world.write_config(history="compatible", reads="universe")
        errors = wait_until("the problem to be told", lambda: world.health()["reloadErrors"])
        assert "history: can't change while the world runs" in errors["config"]
        assert world.health()["loaded"] == loaded
        assert (await world.request("FETCH", "/none.md")).status == "not-found"

    async def test_a_new_certificate_is_for_new_connections(
        self, start_world: Callable[..., Any], wait_until: Callable[..., Any]
    ) -> None:
        world = start_world(reads="public")
        old = await world.dial()
        before = world.health()["loaded"]["tls"]
        fresh = self_signed(now=datetime.now(UTC))
        (world.folder / "tls.crt").write_bytes(fresh.chain_pem)
        (world.folder / "tls.key").write_bytes(fresh.key_pem)
        wait_until("the certificate to be loaded", lambda: world.health()["loaded"]["tls"] != before)
        with pytest.raises(TransportError):
            await world.dial()
        world.roots = fresh.chain_pem
        assert (await world.request("FETCH", "/none.md")).status == "not-found"
        assert b"status: ok" in await old.exchange(b"FETCH /health\n", timeout=5)
        old.close()

    async def test_a_new_key_set_is_taken_over(
        self,
        start_world: Callable[..., Any],
        a_grant: Callable[..., str],
        wait_until: Callable[..., Any],
        tmp_path: Path,
    ) -> None:
        keys = tmp_path / "keys.json"
        keys.write_text('{"keys": []}')
        world = start_world(reads="universe", keySet=str(keys))
        before = world.health()["loaded"]["keySet"]
        key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
        keys.write_text(json.dumps(public_jwks([key.public_key()])))
        wait_until("the key set to be loaded", lambda: world.health()["loaded"]["keySet"] != before)
        # A grant from another time: told apart from one with an unknown key.
        await world.request("FETCH", "/a.md", auth=a_grant(("read", "/**")))
        problem = wait_until("the request's line", world.requests)[0]["problem"]
        assert "clocks" in problem or "expired" in problem


class TestEnd:
    async def test_sigterm_answers_what_runs_and_says_goodbye(
        self, start_world: Callable[..., Any], token_file: Callable[..., str], wait_until: Callable[..., Any]
    ) -> None:
        world = start_world(tokens=token_file(WRITER), reads="public")
        connection = await world.dial()
        data = b"PUBLISH /a.md\n---\nauth: admin\n---\n" + b"x" * 200_000
        running = [asyncio.create_task(connection.exchange(data, timeout=10)) for _ in range(5)]
        await asyncio.gather(*running)
        assert world.stop() == 0
        assert [line["message"] for line in world.lines()][-2:] == ["shutting down", "stopped"]
        with pytest.raises(TransportError):
            await connection.exchange(b"FETCH /health\n", timeout=5)
        assert connection.closed
        connection.close()

    def test_it_ends_with_its_starter(self, start_world: Callable[..., Any]) -> None:
        world = start_world()
        world.process.stdin.close()
        assert world.process.wait(20) == 0

    def test_it_ends_also_while_it_starts(self, start_world: Callable[..., Any]) -> None:
        world = start_world(begin=False)
        command = [COMMAND, "serve", "--config", str(world.folder / "world.yaml"), "--stop-on-stdin-eof"]
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=30)
        assert ended.returncode == 0
        assert b"Traceback" not in ended.stderr

    def test_sigint_ends_it_too(self, start_world: Callable[..., Any]) -> None:
        world = start_world()
        world.process.send_signal(signal.SIGINT)
        assert world.process.wait(20) == 0

    async def test_what_was_written_is_there_after_a_restart(
        self, start_world: Callable[..., Any], token_file: Callable[..., str]
    ) -> None:
        world = start_world(tokens=token_file(WRITER), reads="public")
        await world.request("PUBLISH", "/a.md", b"one", auth="admin")
        await world.request("ARCHIVE", "/a.md", auth="admin")
        world.stop()
        world.start()
        assert (await world.request("FETCH", "/a.md")).status == "archived"
        assert (await world.request("FETCH", "/a.md/v1")).body == b"one"

    async def test_a_5_times_are_those_of_the_log_and_not_of_files(
        self, start_world: Callable[..., Any], token_file: Callable[..., str]
    ) -> None:
        world = start_world(tokens=token_file(WRITER), reads="public")
        for name in "ab":
            await world.request("PUBLISH", f"/{name}.md", name.encode(), auth="admin")
        before = [await world.request("FETCH", "/a.md"), await world.request("LOOKUP", "/", query="*")]
        world.stop()
        for file in world.store.rglob("*"):
            os.utime(file, (1, 1) if "a.md" in str(file) else (4_000_000_000, 4_000_000_000))
        world.start()
        assert [await world.request("FETCH", "/a.md"), await world.request("LOOKUP", "/", query="*")] == before
        since = await world.request("FETCH", "/a.md", if_modified_since=before[0].metadata["modified"])
        assert since.status == "not-modified"
