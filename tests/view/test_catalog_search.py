"""The ways in which LOOKUP goes over the catalog: they differ in work only, never in the answer."""

import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from demarkus_base.blobs.memory import MemoryBlobs
from demarkus_world.engine.engine import Engine
from demarkus_world.view import search, trigrams
from demarkus_world.view.search import Query
from tests.view.conftest import a_write

LETTERS = "abcñ\x00🍵\"'* "
WAYS = {
    "all rows": (-1, ()),
    "few candidates": (10_000, ()),
    "the first rows": (-1, (3, 20, 400)),
    "as it comes": (4, (2, 8)),
}


def a_text(chance: random.Random, most: int) -> str:
    return "".join(chance.choices(LETTERS, k=chance.randint(1, most)))


async def churn(engine: Engine, chance: random.Random, *, documents: int, writes: int) -> None:
    """Documents that come, change, go and come back."""
    archived: set[str] = set()
    for _ in range(writes):
        path = f"/d{chance.randrange(3)}/{chance.randrange(documents):02}.md"
        if path in archived:
            await engine.write(a_write("unarchive", path=path, body=b""))
            archived.discard(path)
            continue
        metadata = {
            "title": a_text(chance, 6),
            "tags": ",".join(a_text(chance, 3) for _ in range(chance.randrange(4))),
            "importance": chance.choice(["0.2", "0.5", "0.9"]),
        }
        await engine.write(a_write(path=path, body=a_text(chance, 9).encode(), metadata=metadata))
        if chance.random() < 0.15:
            await engine.write(a_write("archive", path=path, body=b""))
            archived.add(path)


def expected(rows: sqlite3.Connection, query: Query) -> list[str]:
    """What Mark protocol 8.2 says, row by row."""
    everything = query.text == "*"
    asked = set(query.text.lower().split())
    found = []
    for path, title, tags, importance, modified in rows.execute(
        "SELECT path, title, tags, importance, modified FROM catalog WHERE live"
    ):
        score = sum(term in title or term in tags.strip("\n").split("\n") for term in asked)
        inside = query.scope == "/" or path.startswith(f"{query.scope}/")
        if inside and (everything or score):
            found.append((0 if everything else -score, -importance, -modified, path))
    return [path for *_, path in sorted(found)[: query.limit]]


@pytest.mark.parametrize("way", WAYS)
async def test_every_way_of_searching_finds_the_same(
    open_world: Any, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    few, walks = WAYS[way]
    monkeypatch.setattr(search, "FEW", few)
    monkeypatch.setattr(search, "WALKS", walks)
    engine = await open_world(MemoryBlobs(), key=None)
    chance = random.Random(way)
    await churn(engine, chance, documents=30, writes=150)
    rows = engine._log.view._rows
    hits = 0
    for _ in range(400):
        text = chance.choice(["*", a_text(chance, 4), f"{a_text(chance, 4)} {a_text(chance, 4)}"]).strip()
        if not text.split():
            continue
        query = Query(text=text, scope=chance.choice(["/", "/d1"]), limit=chance.choice([1, 3, 10, 1000]))
        _, found = await engine.lookup(query, lambda path: True)
        assert [match.path for match in found] == expected(rows, query), query
        hits += len(found)
    assert hits > 500, "the queries find something"


async def test_an_index_that_followed_equals_one_that_was_made_anew(open_world: Any, tmp_path: Path) -> None:
    blobs = MemoryBlobs()
    engine = await open_world(blobs, view=tmp_path, key=None)
    chance = random.Random(5)
    await churn(engine, chance, documents=12, writes=120)
    other = await open_world(blobs, key=None)
    assert await other.digest() == await engine.digest()
    mine, anew = engine._log.view, other._log.view
    ids = [dict(view._rows.execute("SELECT document, path FROM catalog")) for view in (mine, anew)]
    for text in {"".join(chance.choices(LETTERS.replace(" ", ""), k=3)) for _ in range(300)}:
        found = [trigrams.candidates(view._rows, [text], most=10_000) for view in (mine, anew)]
        named = [None if some is None else {of[id] for id in some} for some, of in zip(found, ids, strict=True)]
        assert named[0] == named[1], text


async def test_a_change_that_is_taken_back_leaves_the_index_as_it_was(open_world: Any) -> None:
    engine = await open_world(MemoryBlobs(), key=None)
    await engine.write(a_write(metadata={"title": "kettle"}))
    view = engine._log.view

    def change() -> None:
        with view.slot():
            trigrams.forget(view._rows, 1)
            trigrams.index(view._rows, 1, "teapot", "\n")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        change()
    assert trigrams.candidates(view._rows, ["kettle"], most=9) == [1]
    assert trigrams.candidates(view._rows, ["teapot"], most=9) == []


async def test_a_title_with_a_nul_is_found_by_what_follows(open_world: Any) -> None:
    engine = await open_world(MemoryBlobs(), key=None)
    await engine.write(a_write(metadata={"title": "a\0kettle"}))
    assert trigrams.candidates(engine._log.view._rows, ["kettle"], most=9) == [1]


async def test_what_the_index_can_not_tell_it_does_not_tell(open_world: Any) -> None:
    engine = await open_world(MemoryBlobs(), key=None)
    for number in range(3):
        await engine.write(a_write(path=f"/{number}.md", metadata={"title": f"kettle {number}", "tags": "ab"}))
    rows = engine._log.view._rows
    assert trigrams.candidates(rows, ["kettle"], most=3) == [1, 2, 3]
    assert trigrams.candidates(rows, ["kettle"], most=2) is None, "they are more"
    assert trigrams.candidates(rows, ["kettle", "ab"], most=9) is None, "two characters are no run of three"
    assert trigrams.candidates(rows, ["ket\0tle"], most=9) is None
    assert trigrams.candidates(rows, ["kettle" * 5000], most=9) is not None, "a very long text is no harder"
    assert trigrams.candidates(rows, ['"kettle" OR *'], most=9) == [], "no operators"


async def test_an_older_form_of_the_view_is_made_anew(open_world: Any, tmp_path: Path) -> None:
    blobs = MemoryBlobs()
    engine = await open_world(blobs, view=tmp_path, key=None)
    await engine.write(a_write(metadata={"title": "kettle"}))
    await engine.close()
    rows = sqlite3.connect(tmp_path / "catalog.db")
    rows.executescript("DROP TABLE trigram; PRAGMA user_version = 1;")
    rows.close()
    again = await open_world(blobs, view=tmp_path, key=None)
    _, found = await again.lookup(Query(text="kettle"), lambda path: True)
    assert [match.path for match in found] == ["/a.md"]
