"""Reads the YAML a person hands to `demarkus up` and remembers where everything stands.

The job ends at plain mappings that know their file and lines: whether a manifest makes sense is asked of
`check`, which takes the judge as a parameter (the models of `api` in production) and turns its answers into
`file:line: field: message`. Nothing here touches the state folder or starts anything.

YAML is read as the Kubernetes API reads it: dates stay text, a key given twice is a mistake, not a winner.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from demarkus_operator.api.common import Problem

MAX_FILE_BYTES = 1 << 20
"""One manifest file; the API server takes no larger request either."""

MAX_NODES = 100_000
"""Values in one document, with every alias counted as what it stands for."""

SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Located:
    """A problem with its place; of a file that can't be read at all, line is 0 and field empty."""

    file: Path
    line: int
    field: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else str(self.file)
        return f"{place}: {self.field}: {self.message}" if self.field else f"{place}: {self.message}"


class ManifestError(Exception):
    """The manifests can't be used; `problems` lists all that was found, in the order of the files."""

    def __init__(self, problems: Iterable[Located]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document: its content and the syntax tree that knows the lines."""

    file: Path
    content: dict[str, Any]
    tree: yaml.MappingNode

    def line(self, field: Sequence[str | int]) -> int:
        """The line (from 1) of a field, or of the nearest thing around it that the file does contain."""
        node: yaml.Node = self.tree
        line = node.start_mark.line
        for step in field:
            found = _child(node, step)
            if found is None:
                continue  # a model may name a variant in its path that no YAML key stands for
            node, line = found
        return line + 1

    def located(self, problem: Problem) -> Located:
        """The problem with the place it is about."""
        return Located(self.file, self.line(problem.field), dotted(problem.field), problem.message)


Judge = Callable[[dict[str, Any]], Iterable[Problem]]


def read(paths: Sequence[Path]) -> tuple[Document, ...]:
    """All documents of the given files; of a folder, those of its YAML and JSON files, by name.

    Raises ManifestError naming file and line of everything that is not readable YAML of mappings.
    """
    documents: list[Document] = []
    problems: list[Located] = []
    for file in _files(paths, problems):
        try:
            documents.extend(_documents(file))
        except ManifestError as error:
            problems.extend(error.problems)
    if problems:
        raise ManifestError(problems)
    if not documents:
        raise ManifestError([Located(path, 0, "", "holds no manifest") for path in paths])
    return tuple(documents)


def check(documents: Iterable[Document], judge: Judge) -> None:
    """Ask the judge about every document; raises ManifestError with file, line and field of all problems."""
    problems = [document.located(problem) for document in documents for problem in judge(document.content)]
    if problems:
        raise ManifestError(problems)


def dotted(field: Sequence[str | int]) -> str:
    """A field's path as people write it: `spec.access.readers[0].emails`."""
    text = ""
    for step in field:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


def _files(paths: Sequence[Path], problems: list[Located]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            found = sorted(entry for entry in path.iterdir() if entry.suffix in SUFFIXES and entry.is_file())
            if not found:
                problems.append(Located(path, 0, "", f"the folder has no {', '.join(SUFFIXES)} file"))
            files.extend(found)
        elif path.is_file():
            files.append(path)
        else:
            problems.append(Located(path, 0, "", "no such file or folder"))
    return files


def _documents(file: Path) -> list[Document]:
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ManifestError([Located(file, 0, "", error.strerror or str(error))]) from error
    if len(data) > MAX_FILE_BYTES:
        raise ManifestError([Located(file, 0, "", f"larger than {MAX_FILE_BYTES} bytes")])
    documents: list[Document] = []
    try:
        loader = Loader(data)
        try:
            while loader.check_node():
                tree = loader.get_node()
                if tree is None or (isinstance(tree, yaml.ScalarNode) and tree.tag == "tag:yaml.org,2002:null"):
                    continue  # an empty document, as between two separators
                if not isinstance(tree, yaml.MappingNode):
                    message = "a manifest is a mapping with apiVersion, kind, metadata and spec"
                    raise ManifestError([Located(file, tree.start_mark.line + 1, "", message)])
                _refuse_unsound(file, tree)
                documents.append(Document(file, loader.construct_document(tree), tree))
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 0
        raise ManifestError([Located(file, line, "", error.problem or error.context or "not YAML")]) from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        raise ManifestError([Located(file, 0, "", f"not YAML: {error}")]) from error
    except RecursionError as error:
        raise ManifestError([Located(file, 0, "", "nested too deeply")]) from error
    return documents


def _refuse_unsound(file: Path, tree: yaml.MappingNode) -> None:
    """Refuse keys given twice, aliases within themselves, and aliases that stand for something huge."""
    problems: list[Located] = []
    sizes: dict[int, int] = {}  # of nodes that were seen whole, with everything that aliases in them stand for
    around: set[int] = set()

    def size(node: yaml.Node, field: tuple[str | int, ...]) -> int:
        if id(node) in sizes:
            return sizes[id(node)]
        if id(node) in around:
            problems.append(Located(file, node.start_mark.line + 1, dotted(field), "contains itself"))
            return 1
        around.add(id(node))
        total = 1
        if isinstance(node, yaml.SequenceNode):
            total += sum(size(item, (*field, index)) for index, item in enumerate(node.value))
        elif isinstance(node, yaml.MappingNode):
            lines: dict[str, int] = {}
            for key, value in node.value:
                name, line = str(key.value), key.start_mark.line + 1
                if name in lines and key.tag != "tag:yaml.org,2002:merge":
                    message = f"given twice, first on line {lines[name]}"
                    problems.append(Located(file, line, dotted((*field, name)), message))
                lines.setdefault(name, line)
                total += size(value, (*field, name))
        around.remove(id(node))
        sizes[id(node)] = total
        return total

    if size(tree, ()) > MAX_NODES:
        problems.append(
            Located(file, tree.start_mark.line + 1, "", f"more than {MAX_NODES} values, aliases written out")
        )
    if problems:
        raise ManifestError(problems)


def _child(node: yaml.Node, step: str | int) -> tuple[yaml.Node, int] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return value, key.start_mark.line
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        item = node.value[step]
        return item, item.start_mark.line
    return None


class Loader(yaml.SafeLoader):
    """SafeLoader without YAML 1.1's dates and base-60 numbers: JSON, and so the API, knows neither."""


_INTEGER = re.compile(r"^(?:[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+)$")
_FLOAT = re.compile(
    r"^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?)$"
)
_REPLACED = {
    "tag:yaml.org,2002:timestamp": None,
    "tag:yaml.org,2002:int": _INTEGER,
    "tag:yaml.org,2002:float": _FLOAT,  # infinities and not-a-number have no place in JSON either
}
Loader.yaml_implicit_resolvers = {
    first: [(tag, _REPLACED.get(tag, pattern)) for tag, pattern in resolvers if _REPLACED.get(tag, pattern) is not None]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
