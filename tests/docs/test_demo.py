"""`make demo` works, also a second time, and leaves no process behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from email.message import Message
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from dev.documents import own_documents, package_descriptions

ROOT = Path(__file__).parents[2]


class Installed(Distribution):
    """A package as its metadata describes it."""

    def __init__(self, body: str = "# It\n", **headers: str) -> None:
        self._message = Message()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        for name, value in {"Name": "It", "Version": "1", "Description-Content-Type": "text/markdown", **given}.items():
            self._message[name] = value
        self._message.set_payload(body)

    def read_text(self, filename: str) -> str | None:
        return self._message.as_string() if filename == "METADATA" else None

    def locate_file(self, path: object) -> Path:
        raise NotImplementedError


def tags(keywords: str) -> str | None:
    (document,) = package_descriptions([Installed(Keywords=keywords)])
    return document.metadata.get("tags")


def test_markdown_descriptions_become_documents() -> None:
    found = package_descriptions(
        [
            Installed(Name="Zope.Interface", Version="7.1", Summary="Interfaces", Keywords="a,b"),
            Installed(Name="plain", Description_Content_Type="text/x-rst"),
            Installed(Name="demarkus"),
            Installed(Name="empty", body="\n"),
            Installed(Name="gfm", Description_Content_Type="text/markdown; charset=UTF-8; variant=GFM"),
        ]
    )
    assert [document.path for document in found] == ["/gfm.md", "/zope-interface.md"]
    assert found[1].body == "# It\n"
    assert found[1].metadata == {
        "title": "Zope.Interface",
        "package-version": "7.1",
        "description": "Interfaces",
        "tags": "a,b",
    }


@pytest.mark.parametrize(
    ("keywords", "expected"),
    [
        ("", None),
        ("a, B,,a ", "a,b"),
        ("one two\n three", "one,two,three"),
        ("two words, x", "two words,x"),
        (",", None),
    ],
)
def test_tags_are_the_keywords(keywords: str, expected: str | None) -> None:
    assert tags(keywords) == expected


def test_pages_become_documents_by_their_path(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.md").write_text("# B\n")
    (tmp_path / "a.md").write_text("# A\n")
    (tmp_path / "c.txt").write_text("C\n")
    assert [(document.path, document.body) for document in own_documents(tmp_path)] == [
        ("/a.md", "# A\n"),
        ("/sub/b.md", "# B\n"),
    ]


def processes(state: Path) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if str(state).encode() in (entry / "cmdline").read_bytes():
                    yield int(entry.name)
            except OSError:
                continue


def test_the_demonstration_works_twice(tmp_path: Path) -> None:
    state = tmp_path / "state"
    outputs = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-m", "dev.demo", "--state", state],
            cwd=ROOT,
            env=os.environ | {"NO_COLOR": "1"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert list(processes(state)) == []
        outputs.append(done.stdout)
    first, second = outputs
    assert " 0 unchanged, 0 refused" in first
    assert "merge-candidate: written for version 0, there is 1; nothing was written" in first
    assert "merge-candidate: written for version 2, there is 3; nothing was written" in second
    assert "chain-valid: true" in second
    assert second.count(" 0 new versions, ") == 2
    assert "\x1b" not in second
    start, _, look = [line.strip() for line in second.splitlines()[-3:]]
    script = f"{start} --detach && {look}; status=$?; {start.partition(' ')[0]} down --state {state}; exit $status"
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# Pydantic" in done.stdout
