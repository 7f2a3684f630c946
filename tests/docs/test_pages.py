"""Pages agree with the code they tell of, and lead to one another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click
import pytest
from markdown_it import MarkdownIt
from pydantic import BaseModel

from demarkus_broker.settings import BrokerSettings
from demarkus_operator.cli.main import demarkus
from demarkus_operator.plan import labels
from demarkus_world.settings import Settings
from mark_protocol.cli.main import mark

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
NOT_IN_FILES = ("worlds[].access",)
"""Told of by a link to the page that lists the fields."""


def links(page: Path) -> Iterator[str]:
    for token in MarkdownIt().parse(page.read_text()):
        for child in token.children or ():
            if child.type == "link_open":
                yield str(child.attrs["href"])


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def rows(page: str, column: int = 0) -> set[str]:
    """The code words in a column of all tables of a page."""
    cells = [line.split("|")[column + 1] for line in (DOCS / page).read_text().splitlines() if line.startswith("| ")]
    return {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}


def model_inside(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """The model that a field holds, and whether it holds a list of them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    for argument in get_args(annotation):
        model, listed = model_inside(argument)
        if model is not None:
            return model, listed or "tuple" in str(annotation)
    return None, False


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, info in model.model_fields.items():
        path = f"{prefix}{info.alias or name}"
        inner, listed = model_inside(info.annotation)
        if path in NOT_IN_FILES or inner is None or not inner.model_fields:
            yield path
        else:
            if listed:
                yield path
            yield from fields(inner, f"{path}[]." if listed else f"{path}.")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), link
        assert not anchor or anchor in anchors(file), link


def test_every_page_is_reached_from_the_first() -> None:
    seen: set[Path] = set()
    todo = [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        todo += [(page.parent / link.partition("#")[0]).resolve() for link in links(page) if "://" not in link]
    assert set(PAGES) <= seen


def test_every_field_of_world_yaml_is_told_of() -> None:
    assert rows("reference/world-yaml.md") == set(fields(Settings))


def test_every_field_of_broker_yaml_is_told_of() -> None:
    told = rows("reference/broker-yaml.md")
    access = {"worlds[].access.readers", "worlds[].access.writers"}
    assert told - access == set(fields(BrokerSettings)) - {"worlds[].access"}
    assert access <= told


def test_every_command_and_option_of_demarkus_is_told_of() -> None:
    page = (DOCS / "reference" / "commands.md").read_text()
    told = {
        row.split("`")[1].split()[0]: set(re.findall(r"-[-a-z]+", row.split("|")[2]))
        for row in page.splitlines()
        if row.startswith("| `") and "--" in row
    }
    there = {
        name: {
            option
            for parameter in command.params
            if isinstance(parameter, click.Option) and not parameter.hidden
            for option in parameter.opts
        }
        for name, command in demarkus.commands.items()
    }
    assert told == there


def test_every_command_of_mark_is_told_of() -> None:
    page = (DOCS / "reference" / "commands.md").read_text()
    for name in mark.commands:
        assert f"| `{name} URL" in page


def test_every_label_is_told_of() -> None:
    told = rows("reference/objects.md")
    ours = {
        value
        for name, value in vars(labels).items()
        if name.isupper() and isinstance(value, str) and "/" in value and not value.startswith("kubernetes.io/")
    }
    assert ours <= told


def test_commands_on_the_first_page_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`?make ([a-z-]+)", (ROOT / "README.md").read_text()))
    assert {"demo", "test"} <= named <= targets
