"""Real documents that nobody here wrote, and our own: what the demonstration fills its worlds with.

The first kind are the descriptions of the packages installed beside us, those whose metadata says that they are
markdown. Nothing is fetched and nothing is shortened: what does not fit the rules of a world is refused by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import Distribution, PackageMetadata, distributions
from pathlib import Path

OURS = "demarkus"


@dataclass(frozen=True, slots=True)
class Document:
    """A document to publish: its path in the world, its text, its metadata."""

    path: str
    body: str
    metadata: dict[str, str] = field(default_factory=dict)


def package_descriptions(installed: Iterable[Distribution] | None = None) -> list[Document]:
    """The markdown descriptions of installed packages (all of this environment, unless given), by path."""
    found: dict[str, Document] = {}
    for distribution in distributions() if installed is None else installed:
        about = distribution.metadata
        name = re.sub(r"[-_.]+", "-", about["Name"]).lower()  # the normalised form of package names
        kind = _field(about, "Description-Content-Type").partition(";")[0].strip().lower()
        text = _field(about, "Description")
        if kind == "text/markdown" and text.strip() and name != OURS:
            found[name] = Document(f"/{name}.md", text, _metadata(about, distribution.version))
    return [found[name] for name in sorted(found)]


def own_documents(folder: Path) -> list[Document]:
    """The markdown files below a folder, by path."""
    return [
        Document(f"/{path.relative_to(folder).as_posix()}", path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.md"))
    ]


def _field(about: PackageMetadata, name: str) -> str:
    values = about.get_all(name)
    return str(values[0]) if values else ""


def _metadata(about: PackageMetadata, version: str) -> dict[str, str]:
    metadata = {"title": about["Name"], "package-version": version}
    tags = list(_tags(_field(about, "Keywords")))
    if tags:
        metadata["tags"] = ",".join(tags)
    if summary := _field(about, "Summary"):
        metadata["description"] = summary
    return metadata


def _tags(keywords: str) -> Iterator[str]:
    """Keywords are separated by commas, or in older packages by blanks."""
    separator = "," if "," in keywords else None
    seen: set[str] = set()
    for word in keywords.split(separator):
        tag = " ".join(word.split()).lower()
        if tag and tag not in seen:
            seen.add(tag)
            yield tag
