"""`make demo`: a universe of two worlds on this machine, filled with real documents, read and edited as agents do.

It starts `examples/universe` with `demarkus up`, loads one world as a native client with a capability token and the
other through the gateway, then does through the official MCP client what an agent would do, a conflict included. It
stops what it started and keeps the state folder, so that a second run finds everything there.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from dev.documents import Document, own_documents, package_descriptions
from mark_protocol.client.client import MarkClient
from mark_protocol.client.pool import Pool
from mark_protocol.transport.port import Trust
from mark_protocol.urls import parse_url

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
MANIFESTS = Path("examples/universe")
STATE = Path(".demarkus/demo")
AT_ONCE = 8
ENDING_SECONDS = 10.0


class DemoFailed(Exception):
    """Something that has to work did not; the message says what."""


class Screen:
    """What is printed: headings, lines, and a bar where somebody watches."""

    def __init__(self) -> None:
        self._live = sys.stdout.isatty()
        self._colour = self._live and not os.environ.get("NO_COLOR")
        self._begin = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long the demonstration has taken."""
        return time.monotonic() - self._begin

    def heading(self, text: str) -> None:
        """A new part begins."""
        print(f"\n\x1b[1m{text}\x1b[0m" if self._colour else f"\n{text}", flush=True)

    def line(self, text: str) -> None:
        """One thing that happened."""
        print(f"  {text}", flush=True)

    def bar(self, what: str, done: int, total: int) -> None:
        """How far something is: drawn over itself on a terminal, else only said at the end."""
        if self._live:
            filled = 24 * done // max(total, 1)
            print(f"\r  {what:<10} [{'#' * filled:<24}] {done}/{total}", end="\n" if done == total else "", flush=True)
        elif done == total:
            self.line(f"{what:<10} {done}/{total}")


@dataclass(frozen=True, slots=True)
class Universe:
    """The running universe of a state folder."""

    state: Path
    url: str
    worlds: Mapping[str, str]
    pids: Sequence[int]

    def token(self, world: str) -> str:
        """A world's capability token."""
        return demarkus("token", world, "--state", str(self.state)).strip()


def demarkus(*arguments: str) -> str:
    """What a `demarkus` command prints. Raises DemoFailed with what it complains of."""
    done = subprocess.run([BIN / "demarkus", *arguments], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise DemoFailed(done.stderr.strip())
    return done.stdout


@contextlib.contextmanager
def running(state: Path, screen: Screen) -> Iterator[Universe]:
    """The universe from the first line to the last; afterwards no process of it is left."""
    command = [str(part) for part in (BIN / "demarkus", "up", "-f", MANIFESTS, "--state", state, "--detach")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as up:
        assert up.stdout is not None
        for line in up.stdout:
            if line[:1] == " " and " s  " in line:  # progress; where to look comes at the end
                screen.line(line.strip())
            elif line.startswith("Error"):
                screen.line(line.rstrip())
    if up.returncode != 0:
        raise DemoFailed("the universe did not start")
    status = json.loads(demarkus("status", "--json", "--state", str(state)))
    urls = {subject["name"]: subject["url"] for subject in status["subjects"]}
    url = urls.pop("acme")
    pids = [status["pid"], *(process["pid"] for process in status["processes"])]
    try:
        yield Universe(state, url, urls, pids)
    finally:
        demarkus("down", "--state", str(state))
    deadline = time.monotonic() + ENDING_SECONDS
    while left := [pid for pid in pids if runs(pid)]:
        if time.monotonic() > deadline:
            raise DemoFailed(f"processes are left: {left}")
        time.sleep(0.05)


def runs(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    with contextlib.suppress(FileNotFoundError):
        if Path("/proc/self").exists():
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return not Path("/proc/self").exists()
    return False


async def load_packages(universe: Universe, screen: Screen) -> None:
    """Publish descriptions as a native client does: Mark over QUIC, a capability token, several streams at once."""
    documents = package_descriptions()
    target = parse_url(universe.worlds["packages"])
    pool = Pool(
        [(target.host, target.port)],
        server_name=target.server_name,
        trust=Trust(roots=(universe.state / "ca.crt").read_bytes()),
        size=1,
    )
    client = MarkClient(pool, auth=await asyncio.to_thread(universe.token, "packages"))

    async def publish(document: Document) -> tuple[str, str]:
        try:
            answer = await client.publish(document.path, document.body.encode(), metadata=document.metadata)
        except ValueError as error:
            return "refused", str(error)  # over a limit of the protocol: not even sent
        if answer.status in ("created", "ok"):
            return answer.status, ""
        return "refused", answer.body.decode().strip().splitlines()[-1]

    try:
        await load("packages", documents, publish, screen)
    finally:
        await pool.close()


async def load_handbook(call: Call, screen: Screen) -> None:
    """Publish this repository's `docs/` through the gateway: what is there is read first, as an agent should."""

    async def publish(document: Document) -> tuple[str, str]:
        url = f"mark://handbook{document.path}"
        there = await call("mark_fetch", url=url)
        version = int(there["metadata"].get("version", 0)) if there["status"] == "ok" else 0
        answer = await call("mark_publish", url=url, body=document.body, expected_version=version)
        return (
            ("refused", answer.get("body", "")) if answer["status"] not in ("created", "ok") else (answer["status"], "")
        )

    await load("handbook", own_documents(ROOT / "docs"), publish, screen)


async def load(
    world: str, documents: Sequence[Document], publish: Callable[[Document], Awaitable[tuple[str, str]]], screen: Screen
) -> None:
    """Publish all, a few at once, and say what became of them. Raises DemoFailed if nothing was taken."""
    gate = asyncio.Semaphore(AT_ONCE)
    results: dict[str, tuple[str, str]] = {}

    async def one(document: Document) -> None:
        async with gate:
            results[document.path] = await publish(document)
        screen.bar(world, len(results), len(documents))

    await asyncio.gather(*(one(document) for document in documents))
    count = {status: sum(result == status for result, _ in results.values()) for status in ("created", "ok", "refused")}
    screen.line(f"{'':<10} {count['created']} new versions, {count['ok']} unchanged, {count['refused']} refused")
    for path, (status, reason) in sorted(results.items()):
        if status == "refused":
            screen.line(f"{'':<10} refused: {path}: {reason}")
    if not count["created"] + count["ok"]:
        raise DemoFailed(f"world {world} took no document")


Call = Callable[..., Awaitable[Mapping[str, Any]]]


@contextlib.asynccontextmanager
async def gateway(universe: Universe) -> AsyncIterator[Call]:
    """The gateway's tools through the official MCP client, as the person whom the bearer names."""
    bearer = (universe.state / "bearer").read_text().strip()
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {bearer}"}, timeout=30) as http,
        Client(streamable_http_client(universe.url, http_client=http)) as client,
    ):

        async def call(tool: str, **arguments: object) -> Mapping[str, Any]:
            result = await client.call_tool(tool, arguments)
            if result.is_error or not isinstance(result.structured_content, dict):
                raise DemoFailed(f"{tool}: {result.content}")
            return result.structured_content

        yield call


async def look_around(call: Call, screen: Screen) -> None:
    """List, fetch, publish, run into a conflict, solve it, and see the history."""
    worlds = await call("mark_worlds")
    for row in worlds["worlds"]:
        screen.line(f"mark_worlds    {row['url']}  {'may be written' if row['writable'] else 'may be read'}")

    listing = await call("mark_list", url="mark://packages/")
    screen.line(f"mark_list      mark://packages/  {listing['metadata']['entries']} entries")
    fetched = await call("mark_fetch", url="mark://packages/pydantic.md", force=True)
    text = fetched["body"]
    title = next(line for line in text.splitlines() if line.strip())
    version = fetched["metadata"]["version"]
    screen.line(f"mark_fetch     mark://packages/pydantic.md  version {version}, {len(text)} characters: {title}")

    note = "mark://handbook/demo/shared-note.md"
    there = await call("mark_fetch", url=note)
    base = int(there["metadata"]["version"]) if there["status"] == "ok" else 0
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    first = await expect(
        "created", call, "mark_publish", url=note, body=f"# Shared note\n\nAnn, {now}\n", expected_version=base
    )
    screen.line(f"mark_publish   {note}  created: version {first['metadata']['version']}")

    # Somebody else, who has not seen that version, writes for the one before: nothing may be overwritten.
    lost = await expect("merge-candidate", call, "mark_publish", url=note, body="# Mine\n", expected_version=base)
    screen.line(
        f"mark_publish   {note}  merge-candidate: written for version {lost['metadata']['your-version']}, "
        f"there is {lost['metadata']['current-version']}; nothing was written"
    )
    current = lost["current"]
    merged = f"{current['body']}Bob, {now}, after reading the above\n"
    second = await expect(
        "created", call, "mark_publish", url=note, body=merged, expected_version=int(current["version"])
    )
    screen.line(f"mark_publish   {note}  created: version {second['metadata']['version']}, with both texts")

    history = await call("mark_versions", url=note)
    screen.line(f"mark_versions  {note}  chain-valid: {history['metadata']['chain-valid']}")
    entries = [line for line in history["body"].splitlines() if line.startswith("- ")]
    for entry in entries[:4]:
        screen.line(f"                 {entry[2:].partition(']')[0].lstrip('[')} {entry.rpartition(' - ')[2]}")
    if history["metadata"]["chain-valid"] != "true":
        raise DemoFailed("the chain of versions is not valid")


async def expect(status: str, call: Call, tool: str, **arguments: object) -> Mapping[str, Any]:
    """A call that has to end with this status. Raises DemoFailed."""
    answer = await call(tool, **arguments)
    if answer["status"] != status:
        raise DemoFailed(f"{tool}: expected {status}, got {answer['status']}: {answer.get('body', '')}")
    return answer


async def show(universe: Universe, screen: Screen) -> None:
    """Everything between start and stop."""
    async with gateway(universe) as call:
        screen.heading("Real documents")
        await load_packages(universe, screen)
        await load_handbook(call, screen)
        screen.heading("An agent's view, through the official MCP client")
        await look_around(call, screen)


def hints(universe: Universe) -> Sequence[str]:
    """How to look for oneself."""
    tool = os.path.relpath(BIN, Path.cwd())
    state = universe.state
    token = f"$({tool}/demarkus token packages --state {state})"
    return (
        f"{tool}/demarkus up -f {MANIFESTS} --state {state}",
        f"an MCP client: {universe.url} with the bearer in {state}/bearer",
        f"DEMARKUS_AUTH={token} {tool}/mark fetch --ca {state}/ca.crt {universe.worlds['packages']}pydantic.md",
    )


def first_message(error: BaseException) -> str:
    """The message of the first failure in nested groups."""
    return first_message(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else str(error)


def main() -> int:
    """Run the demonstration; the exit status is 0 if all of it worked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", type=Path, default=STATE, help="where it keeps its universe")
    state = parser.parse_args().state
    os.chdir(ROOT)
    screen = Screen()
    screen.heading(f"A universe of two worlds and a gateway, from {MANIFESTS}")
    failed = ""
    try:
        with running(state, screen) as universe:
            asyncio.run(show(universe, screen))
    except* DemoFailed as failures:  # the client's task groups wrap what is raised in their scope
        failed = first_message(failures)
    if failed:
        print(f"demo: {failed}", file=sys.stderr)
        return 1
    screen.heading(f"Done in {screen.seconds:.0f} s; everything is stopped and kept in {state}. Look for yourself:")
    for hint in hints(universe):
        screen.line(hint)
    return 0


if __name__ == "__main__":
    sys.exit(main())
