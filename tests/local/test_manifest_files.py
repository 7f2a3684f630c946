"""Manifests are read with their lines, and every mistake names file, line and field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from demarkus_operator.api.common import Problem
from demarkus_operator.local.manifests import ManifestError, check, read


def a_file(folder: Path, text: str, *, name: str = "world.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def problems_of(path: Path, wrong: tuple[Problem, ...] = ()) -> list[str]:
    def judge(content: dict[str, Any]) -> tuple[Problem, ...]:
        return wrong

    with pytest.raises(ManifestError) as caught:
        check(read([path]), judge)
    return [str(problem).removeprefix(f"{path.parent}/") for problem in caught.value.problems]


def test_several_documents_in_several_files_are_read_in_order_of_names(tmp_path: Path) -> None:
    a_file(tmp_path, "kind: B\n---\nkind: C\n---\n", name="b.yaml")
    a_file(tmp_path, "kind: A\n", name="a.yml")
    a_file(tmp_path, '{"kind": "D"}', name="d.json")
    a_file(tmp_path, "not a manifest", name="README.md")
    assert [document.content["kind"] for document in read([tmp_path])] == ["A", "B", "C", "D"]


@pytest.mark.parametrize(
    ("field", "line"),
    [
        (("kind",), 2),
        (("spec", "reads"), 4),
        (("spec", "access", "readers", 1, "emails", 0), 10),
        (("spec", "access", "readers", 0), 7),
        (("spec", "access", "writers"), 5),  # absent: the mapping it is missing in
        (("spec", "store", "tagged-union", "volume", "size"), 13),  # a model's own step has no line
        ((), 1),
    ],
)
def test_a_problem_is_told_with_the_line_of_its_field(tmp_path: Path, field: tuple[str | int, ...], line: int) -> None:
    text = """\
apiVersion: demarkus.io/v1alpha1
kind: World
spec:
  reads: nobody
  access:
    readers:
      - domains: [example.com]
      - emails:
          # a comment in between
          - not-an-address
  store:
    volume:
      size: many
"""
    (told,) = problems_of(a_file(tmp_path, text), (Problem(field, "is wrong"),))
    assert told.startswith(f"world.yaml:{line}: ")
    assert told.endswith("is wrong")


def test_lines_count_from_the_beginning_of_the_file_in_every_document(tmp_path: Path) -> None:
    path = a_file(tmp_path, "kind: A\n---\nkind: B\nspec: {}\n")

    def judge(content: dict[str, Any]) -> tuple[Problem, ...]:
        return (Problem(("spec",), "no"),) if content["kind"] == "B" else ()

    with pytest.raises(ManifestError, match=r"world\.yaml:4: spec: no"):
        check(read([path]), judge)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("kind: World\nspec:\n  reads: [public\n", "world.yaml:4: expected ',' or ']', but got '<stream end>'"),
        ("kind: World\n\tspec: 1\n", "world.yaml:2: found character '\\t' that cannot start any token"),
        ("- kind: World\n", "world.yaml:1: a manifest is a mapping with apiVersion, kind, metadata and spec"),
        ("kind: World\nspec:\n  reads: a\n  reads: b\n", "world.yaml:4: spec.reads: given twice, first on line 3"),
        ("kind: !!python/object:os.system x\n", "world.yaml:1: could not determine a constructor"),
        ("", "world.yaml: holds no manifest"),
        ("a: " + "[" * 5000, "world.yaml: nested too deeply"),
    ],
    ids=["flow", "tab", "list", "twice", "python-tag", "empty", "deep"],
)
def test_broken_yaml_names_file_and_line(tmp_path: Path, text: str, told: str) -> None:
    (problem,) = problems_of(a_file(tmp_path, text))
    assert problem.startswith(told)


def test_every_broken_file_of_a_folder_is_named_at_once(tmp_path: Path) -> None:
    a_file(tmp_path, "[", name="a.yaml")
    a_file(tmp_path, "kind: World\n", name="b.yaml")
    a_file(tmp_path, "}", name="c.yaml")
    with pytest.raises(ManifestError) as caught:
        read([tmp_path])
    assert [problem.file.name for problem in caught.value.problems] == ["a.yaml", "c.yaml"]


def test_a_path_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="absent: no such file or folder"):
        read([tmp_path / "absent"])


def test_a_folder_without_manifests_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="has no"):
        read([tmp_path])


def test_values_are_what_the_kubernetes_api_would_see(tmp_path: Path) -> None:
    path = a_file(tmp_path, "day: 2026-01-02\ntime: 12:30\ncount: 3\nsize: 1Gi\nratio: 0.5\non: yes\n")
    (document,) = read([path])
    assert document.content["day"] == "2026-01-02"
    assert document.content["time"] == "12:30"
    assert document.content["count"] == 3
    assert document.content["size"] == "1Gi"
    assert document.content["ratio"] == 0.5


def test_an_alias_that_contains_itself_is_named(tmp_path: Path) -> None:
    (problem,) = problems_of(a_file(tmp_path, "kind: World\na: &loop\n  b: *loop\n"))
    assert problem == "world.yaml:2: a.b: contains itself"


def test_aliases_do_not_make_something_huge_of_something_small(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    (problem,) = problems_of(a_file(tmp_path, "\n".join(lines)))
    assert problem == "world.yaml:1: more than 100000 values, aliases written out"


def test_aliases_are_what_they_stand_for(tmp_path: Path) -> None:
    (document,) = read([a_file(tmp_path, "a: &a {b: 1}\nc: *a\nd:\n  <<: *a\n  e: 2\n")])
    assert document.content == {"a": {"b": 1}, "c": {"b": 1}, "d": {"b": 1, "e": 2}}
