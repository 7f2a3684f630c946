"""How often the content checks are wrong: `python -m tests.benchmarks.content FOLDER...` (`make measure-content`).

Every document below the folders is checked: markdown, reStructuredText, plain text, package metadata, Debian's
documentation (compressed too), and the docstrings of Python sources. Without folders: whatever is installed here.
What is found is told by file, line and kind, never by value, so that a person can look whether it is a secret.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from demarkus_world.content import Finding, inspect_body

LIMIT = 1_048_576
ENDINGS = (".md", ".markdown", ".rst", ".txt", ".adoc")
NAMES = ("METADATA", "PKG-INFO", "README", "CHANGELOG", "NEWS", "AUTHORS", "copyright")
DOCUMENTATION = Path("/usr/share/doc")


@dataclass
class Measured:
    """What was looked at, and what was found in it."""

    documents: int = 0
    size: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    found: dict[str, tuple[Finding, ...]] = field(default_factory=dict)

    def rate(self, *, personal: bool = False) -> float:
        """The share of documents with at least one secret, or with personal data."""
        hit = sum(any(finding.personal is personal for finding in findings) for findings in self.found.values())
        return hit / self.documents if self.documents else 0.0

    def kinds(self) -> Counter[str]:
        """How many documents have each kind."""
        return Counter(kind for findings in self.found.values() for kind in {finding.kind for finding in findings})


def documents(roots: list[Path], *, at_most: int) -> Iterator[tuple[str, bytes]]:
    """(name, text) of documents below folders, each text once, in the order of their names."""
    seen: set[int] = set()
    for root in roots:
        for folder, folders, names in os.walk(root):
            folders.sort()
            for name in sorted(names):
                file = Path(folder, name)
                text = _read(file)
                if text is None or not 200 <= len(text) <= LIMIT or hash(text) in seen:
                    continue
                seen.add(hash(text))
                yield str(file), text
                if len(seen) >= at_most:
                    return


def measure(texts: Iterator[tuple[str, bytes]]) -> Measured:
    """Checks every text, for secrets and personal data."""
    measured = Measured()
    for name, text in texts:
        begun = time.perf_counter()
        findings = inspect_body(text, personal=True)
        took = time.perf_counter() - begun
        measured.documents += 1
        measured.size += len(text)
        measured.seconds += took
        measured.slowest = max(measured.slowest, took)
        if findings:
            measured.found[name] = findings
    return measured


def _read(file: Path) -> bytes | None:
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > 4 * LIMIT:
            return None
        if file.suffix == ".py":
            return _docstrings(file.read_bytes())
        if file.suffix == ".gz" and DOCUMENTATION in file.parents:
            data = gzip.decompress(file.read_bytes())
        elif file.name.endswith(ENDINGS) or file.name.startswith(NAMES) or DOCUMENTATION in file.parents:
            data = file.read_bytes()
        else:
            return None
        data.decode()
    except (OSError, EOFError, UnicodeDecodeError):
        return None
    return None if b"\0" in data else data


def _docstrings(source: bytes) -> bytes | None:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, owners)]
    return "\n\n".join(filter(None, texts)).encode(errors="replace")


def main() -> None:
    """Measures and prints."""
    options = argparse.ArgumentParser(description="How often the content checks find something in real documents.")
    options.add_argument("folders", nargs="*", type=Path)
    options.add_argument("--at-most", type=int, default=20_000, help="documents (default 20000)")
    options.add_argument("--show", metavar="KIND", help="tell the places of one kind, or of `secrets`")
    asked = options.parse_args()
    roots = asked.folders or [Path(sys.prefix), DOCUMENTATION, Path.home() / "go" / "pkg" / "mod"]
    measured = measure(documents(roots, at_most=asked.at_most))
    secrets, personal = measured.rate(), measured.rate(personal=True)
    print(f"documents      {measured.documents}, {measured.size / 1e6:.1f} MB")
    speed = measured.size / 1e6 / max(measured.seconds, 1e-9)
    print(f"speed          {speed:.1f} MB/s, the slowest {measured.slowest * 1000:.1f} ms")
    print(f"secrets        in {secrets:.3%} of them")
    print(f"personal data  in {personal:.3%} of them")
    for kind, count in measured.kinds().most_common():
        print(f"  {kind:32} {count}")
    for name, findings in measured.found.items():
        for finding in findings:
            if asked.show == finding.kind or (asked.show == "secrets" and not finding.personal):
                print(f"{name}: {finding}")


if __name__ == "__main__":
    main()
