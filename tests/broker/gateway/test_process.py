"""The broker as a process: start, refusal to start, logs, end."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest


async def test_no_log_and_no_metric_holds_a_credential_or_a_text(site: Any) -> None:
    """A19: what works and what fails, at the chattiest level."""
    kitchen = site.world("kitchen", log={"level": "debug"})
    site.log_level = "debug"
    site.start_broker(kitchen.route(), kitchen.route(name="down", addresses=["127.0.0.1:1"]))
    for tool, arguments in (
        ("mark_publish", {"url": "mark://kitchen/a.md", "body": "the text", "expected_version": 0}),
        ("mark_fetch", {"url": "mark://down/a.md"}),
        ("mark_fetch", {"url": "nonsense"}),
        ("mark_publish", {"url": "mark://kitchen/a.md", "body": "late", "expected_version": 0}),
    ):
        await site.call(tool, **arguments)
    async with site.http_client(bearer=site.bearer() + "x") as http:
        await http.post("/mcp", content=b"{")
    kitchen.write(grantsNotBefore=(datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ"))
    await site.call("mark_fetch", url="mark://kitchen/a.md")
    told = site.broker.text() + kitchen.text() + site.broker.metrics()
    assert '"level": "debug"' in told
    for what in ("the text", "ann@example.com", "PRIVATE KEY", site.bearer()[-40:]):
        assert what not in told
    assert not re.search(r"eyJ[A-Za-z0-9_-]{10}", told)
    assert not re.search(r"(?i)bearer [A-Za-z0-9._-]{10}", told)


async def test_every_call_is_one_line_with_a_hidden_subject(site: Any) -> None:
    kitchen = site.world("kitchen")
    site.start_broker(kitchen.route())
    await site.call("mark_fetch", url="mark://kitchen/a.md")
    lines = [json.loads(line) for line in site.broker.text().splitlines()]
    (line,) = [line for line in lines if line["message"] == "tool called"]
    assert (line["tool"], line["outcome"], line["worlds"]) == ("mark_fetch", "not-found", ["kitchen"])
    assert re.fullmatch(r"s-[0-9a-f]{32}", line["subject"])
    assert line["ms"] > 0


def test_it_says_what_it_has_loaded(universe: Any) -> None:
    facts = universe.broker.facts()
    assert (facts["name"], facts["worlds"]) == (universe.url, ["kitchen", "garden", "attic"])
    assert facts["listen"]["http"] == f"127.0.0.1:{universe.port}"
    assert all(re.fullmatch(r"[0-9a-f]{64}", facts["loaded"][what]) for what in ("config", "keys", "caBundle"))


def test_it_ends_in_order(site: Any) -> None:
    site.start_broker()
    assert site.broker.stop() == 0


def test_it_ends_with_its_starter(site: Any) -> None:
    site.start_broker()
    site.broker.child.stdin.close()
    assert site.broker.child.wait(30) == 0


def run(*arguments: str) -> Any:
    program = Path(sys.executable).parent / "demarkus-broker"
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("break_it", "says"),
    [
        (lambda folder: edit(folder, "caBundle", "caBundel"), "caBundel: unknown field"),
        (lambda folder: (folder / "broker.yaml").unlink(), "broker.yaml: No such file"),
        (lambda folder: (folder / "ca.crt").write_text("x"), "expected at least one CA certificate"),
        (lambda folder: (folder / "ca.crt").unlink(), "ca.crt: No such file"),
        (lambda folder: (folder / "keys" / "subject.key").unlink(), "subject.key is missing"),
    ],
    ids=["unknown field", "no file", "broken CA", "no CA", "no subject key"],
)
def test_a_start_that_needs_a_change_says_which_in_one_line(site: Any, break_it: Any, says: str) -> None:
    site.configure()
    break_it(site.folder)
    ended = run("serve", "--config", str(site.broker.config))
    assert ended.returncode == 2
    assert says in ended.stderr
    assert "Traceback" not in ended.stderr


def edit(folder: Path, old: str, new: str) -> None:
    config = folder / "broker.yaml"
    config.write_text(config.read_text().replace(old, new))


def test_a_taken_port_may_work_later(universe: Any) -> None:
    ended = run("serve", "--config", str(universe.broker.config))
    assert ended.returncode == 1
    assert "listen.http" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_help_does_not_load_the_server() -> None:
    """The MCP library takes a second to import."""
    code = "import sys, demarkus_broker.cli; sys.exit('mcp' in sys.modules or 'uvicorn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
