"""The scrub finds what was altered where nobody reads, tells it at once, and never more than there is."""

import hashlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_world.engine import keys
from demarkus_world.engine import scrub as scrubbing
from demarkus_world.engine.model import Prune
from demarkus_world.engine.progress import FILE, Progress
from demarkus_world.engine.scrub import AGAIN, BYTES, READS, Scrub


class Pause:
    """Counts the seconds somebody wanted to wait; `then` is called each time."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.then: Callable[[], Any] | None = None

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        if self.then is not None:
            await self.then()


async def a_store(start: Any, a_write: Any, **given: Any) -> tuple[MemoryBlobs, Any]:
    """Five documents in three directories; /a.md has three versions."""
    blobs = MemoryBlobs()
    engine = await start(blobs, **given)
    for body in (b"one", b"two", b"three"):
        await engine.write(a_write(body=body))
    for path in ("/b.md", "/deep/c.md", "/deep/er/d.md", "/.hidden/e.md"):
        await engine.write(a_write(path=path))
    return blobs, engine


def a_scrub(engine: Any, pause: Pause) -> Scrub:
    async def view() -> Any:
        return await engine.view(exact=True)

    return Scrub(
        view=view,
        entries=engine.entries_from,
        recheck=engine.recheck,
        scrubbed=engine.scrubbed,
        pause=pause,
        clock=lambda: 0.0,
        kept=engine.progress,
    )


async def alter(blobs: MemoryBlobs, engine: Any, path: str, version: int, data: bytes | None) -> str:
    """Replace the bytes of a version, or remove them."""
    blob = str((await engine.view(exact=True)).version(path, version).blob)
    await blobs.delete(blob)
    if data is not None:
        await blobs.create(blob, data)
    return blob


async def test_a_pass_reads_every_version_within_its_bounds(start: Any, a_write: Any) -> None:
    _, engine = await a_store(start, a_write)
    pause = Pause()
    await a_scrub(engine, pause).once()
    assert (engine.scrubbed.verified_through, engine.scrubbed.passes, engine.scrubbed.versions) == (7, 1, 7)
    assert not engine.scrubbed.damage
    assert len(pause.seconds) == 7
    assert all(seconds >= 1 / READS for seconds in pause.seconds)


async def test_a_view_that_was_altered_is_told(start: Any, a_write: Any, tmp_path: Path) -> None:
    """Also where the view was pointed at bytes that fit what it says."""
    blobs, engine = await a_store(start, a_write, view=tmp_path)
    right = (await engine.view(exact=True)).version("/b.md", 1)
    await engine.close()
    forged = (await blobs.get(right.blob)).replace(b"text", b"lies")
    digest = hashlib.sha256(forged).digest()
    await blobs.create(keys.blob("/b.md", 1, digest.hex(), right.blob[-11:-3]), forged)
    body = hashlib.sha256(b"lies\n").digest()
    with sqlite3.connect(tmp_path / "catalog.db") as rows:
        changed = rows.execute(
            "UPDATE version SET stored = ?, body = ? WHERE document = (SELECT id FROM document WHERE path = '/b.md')",
            (digest, body),
        )
        assert changed.rowcount == 1
    rows.close()
    again = await start(blobs, view=tmp_path)
    await a_scrub(again, Pause()).once()
    told = [damage.text for damage in again.scrubbed.damage.values() if damage.path == "/b.md"]
    assert "the view says something else of /b.md version 1 than the log: remove it" in told
    assert not (await again.check_chain("/b.md")).valid


async def test_large_versions_take_longer(start: Any, a_write: Any) -> None:
    engine = await start()
    await engine.write(a_write(body=b"x" * 1_000_000))
    pause = Pause()
    await a_scrub(engine, pause).once()
    assert pause.seconds[0] > 1_000_000 / BYTES


@pytest.mark.parametrize(
    ("path", "version", "data", "told", "through"),
    [
        ("/a.md", 1, b"edited", "its bytes are not those the log recorded", 0),
        ("/a.md", 3, None, "missing, though the log has /a.md version 3", 2),
        ("/deep/er/d.md", 1, b"", "its bytes are not those the log recorded", 5),
    ],
)
async def test_damage_is_told_and_bounds_what_is_verified(
    start: Any,
    a_write: Any,
    caplog: pytest.LogCaptureFixture,
    path: str,
    version: int,
    data: bytes | None,
    told: str,
    through: int,
) -> None:
    blobs, engine = await a_store(start, a_write)
    blob = await alter(blobs, engine, path, version, data)
    scrub = a_scrub(engine, Pause())
    await scrub.once()
    await scrub.once()
    [damage] = engine.scrubbed.damage.values()
    assert (damage.path, damage.version, damage.blob) == (path, version, blob)
    assert told in damage.text
    assert engine.scrubbed.verified_through == through
    errors = [record for record in caplog.records if record.levelname == "ERROR" and told in record.message]
    assert len(errors) == 1, "once, not with every pass"
    report = await engine.check_chain(path)
    assert (report.valid, report.state) == (False, "broken")
    assert (await engine.check_chain("/b.md")).valid


async def test_damage_among_the_old_versions_is_in_the_chain_report(start: Any, a_write: Any) -> None:
    """A check reads the newest 64 versions only; the scrub goes through the others."""
    blobs = MemoryBlobs()
    engine = await start(blobs)
    for number in range(70):
        await engine.write(a_write(body=b"%d" % number))
    await alter(blobs, engine, "/a.md", 2, b"edited")
    assert (await engine.check_chain("/a.md")).valid
    await a_scrub(engine, Pause()).once()
    report = await engine.check_chain("/a.md")
    assert (report.valid, report.first_retained) == (False, 1)
    await alter(blobs, engine, "/a.md", 60, b"edited")
    assert "version 60" in str((await engine.check_chain("/a.md")).fault)


async def test_what_was_put_back_is_no_damage_any_more(start: Any, a_write: Any) -> None:
    blobs, engine = await a_store(start, a_write)
    view = await engine.view(exact=True)
    right = await blobs.get(view.version("/a.md", 2).blob)
    await alter(blobs, engine, "/a.md", 2, b"edited")
    scrub = a_scrub(engine, Pause())
    await scrub.once()
    assert engine.scrubbed.damage
    await alter(blobs, engine, "/a.md", 2, right)
    await scrub.once()
    assert not engine.scrubbed.damage
    assert engine.scrubbed.verified_through == 7


async def test_what_is_pruned_and_swept_meanwhile_is_no_damage(start: Any, a_write: Any) -> None:
    blobs, engine = await a_store(start, a_write)
    pause = Pause()

    async def prune() -> None:
        pause.then = None
        gone = [engine._log.view.version("/a.md", number).blob for number in (1, 2)]
        await engine.write(Prune(path="/a.md", keep=1, by="local:kettle"))
        for blob in gone:
            await blobs.delete(blob)

    pause.then = prune
    await a_scrub(engine, pause).once()
    assert not engine.scrubbed.damage
    assert engine.scrubbed.verified_through == 7


async def test_documents_that_come_meanwhile_wait_for_the_next_pass(start: Any, a_write: Any) -> None:
    _, engine = await a_store(start, a_write)
    pause = Pause()

    async def write() -> None:
        pause.then = None
        await engine.write(a_write(path="/zz.md"))

    pause.then = write
    await a_scrub(engine, pause).once()
    assert engine.scrubbed.verified_through == 7
    await a_scrub(engine, pause).once()
    assert engine.scrubbed.verified_through == 8


class Died(Exception):
    """The process ends here."""


async def die_after(reads: int, scrub: Scrub, pause: Pause) -> None:
    """Let a pass go on for so many reads."""

    async def count() -> None:
        if len(pause.seconds) == reads:
            raise Died

    pause.then = count
    with pytest.raises(Died):
        await scrub.once()


async def test_a_pass_goes_on_after_a_restart(
    start: Any, a_write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Documents in their order: /.hidden/e.md, /a.md with three versions, /b.md, /deep/c.md, /deep/er/d.md."""
    monkeypatch.setattr(scrubbing, "PAGE", 2)
    blobs, engine = await a_store(start, a_write, view=tmp_path)
    pause = Pause()
    await die_after(5, a_scrub(engine, pause), pause)  # in the second page
    assert engine.progress.load() == Progress(through=7, after="/a.md")
    await engine.write(a_write(path="/z.md"))
    await engine.close()

    again = await start(blobs, view=tmp_path)
    scrub = a_scrub(again, Pause())
    await scrub.resume()
    await scrub.once()
    assert (again.scrubbed.verified_through, again.scrubbed.versions) == (7, 3)
    await scrub.once()
    assert (again.scrubbed.verified_through, again.scrubbed.versions) == (8, 3 + 8), "the next pass is a whole one"


async def test_what_was_verified_is_known_after_a_restart_and_a_pass_begins(
    start: Any, a_write: Any, tmp_path: Path
) -> None:
    blobs, engine = await a_store(start, a_write, view=tmp_path)
    await a_scrub(engine, Pause()).once()
    await engine.close()
    again = await start(blobs, view=tmp_path)
    scrub = a_scrub(again, Pause())
    await scrub.resume()
    assert again.scrubbed.verified_through == 7
    await scrub.once()
    assert again.scrubbed.versions == 7, "what was altered while nothing ran is found"


async def test_a_pass_that_found_damage_begins_anew(
    start: Any, a_write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrubbing, "PAGE", 2)
    blobs, engine = await a_store(start, a_write, view=tmp_path)
    blob = await alter(blobs, engine, "/a.md", 1, b"lies")
    pause = Pause()
    await die_after(6, a_scrub(engine, pause), pause)
    await engine.close()
    for _ in range(2):
        engine = await start(blobs, view=tmp_path)
        scrub = a_scrub(engine, Pause())
        await scrub.resume()
        assert engine.scrubbed.verified_through == 0
        await scrub.once()
        assert (list(engine.scrubbed.damage), engine.scrubbed.versions) == ([blob], 7)
        await engine.close()


@pytest.mark.parametrize("what", ["altered", "noise", "of a longer log", "without a key"])
async def test_progress_that_is_not_to_be_believed_is_none(start: Any, a_write: Any, tmp_path: Path, what: str) -> None:
    blobs, engine = await a_store(start, a_write, view=tmp_path)
    engine.progress.save(Progress(through=9 if what == "of a longer log" else 5, after="/deep/c.md"))
    file = tmp_path / FILE
    if what == "altered":
        file.write_bytes(file.read_bytes().replace(b'"through":5', b'"through":7'))
    elif what == "noise":
        file.write_bytes(b"noise")
    await engine.close()
    again = await start(blobs, view=tmp_path, **({"key": None} if what == "without a key" else {}))
    scrub = a_scrub(again, Pause())
    await scrub.resume()
    await scrub.once()
    assert (again.scrubbed.verified_through, again.scrubbed.versions) == (7, 7)


async def test_a_store_out_of_reach_is_waited_for(start: Any, a_write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from demarkus_base.blobs.port import Unavailable

    blobs, engine = await a_store(start, a_write)
    pause, real = Pause(), blobs.get

    async def away(key: str) -> bytes:
        raise Unavailable("away")

    async def back() -> None:
        if AGAIN in pause.seconds:
            monkeypatch.setattr(blobs, "get", real)

    view = await engine.view(exact=True)
    pages = [page async for page in engine.entries_from(1)]

    async def entries(sequence: int) -> Any:
        for page in pages:
            yield page

    scrub = Scrub(
        view=lambda: _now(view),
        entries=entries,
        recheck=engine.recheck,
        scrubbed=engine.scrubbed,
        pause=pause,
        clock=lambda: 0.0,
        kept=engine.progress,
    )
    monkeypatch.setattr(blobs, "get", away)
    pause.then = back
    await scrub.once()
    assert not engine.scrubbed.damage
    assert engine.scrubbed.verified_through == 7


async def _now(view: Any) -> Any:
    return view
