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

from demarkus_broker.mcp.prompts import PROMPTS
from demarkus_broker.mcp.tools.table import PROFILES, TOOLS
from demarkus_broker.settings import BrokerSettings
from demarkus_operator.cli.main import demarkus
from demarkus_operator.plan import labels
from demarkus_world.commands import serve
from demarkus_world.commands import token as token_command
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


def section(heading: str) -> str:
    """A section of the page of commands."""
    page = (DOCS / "reference" / "commands.md").read_text()
    return page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def told_of_commands(heading: str) -> dict[str, set[str]]:
    """The commands in the table of a section, with the options in its second column."""
    rows = [row.split("|") for row in section(heading).splitlines() if row.startswith("| `")]
    return {row[1].split("`")[1].split()[0]: set(re.findall(r"-[-a-z]+", row[2])) for row in rows}


def options(command: click.Command) -> set[str]:
    """The options that a command shows."""
    return {
        option
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden
        for option in parameter.opts
    }


def arguments(command: click.Command) -> list[str]:
    """Its arguments as they are written in a usage line."""
    found = [parameter for parameter in command.params if isinstance(parameter, click.Argument)]
    return [(a.name or "").upper() if a.required else f"[{(a.name or '').upper()}]" for a in found]


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


def test_every_tool_argument_and_prompt_is_told_of() -> None:
    page = (DOCS / "reference/tools.md").read_text()
    rows = {row.split("|")[1].strip(" `"): row for row in page.splitlines() if row.startswith("| `mark_")}
    assert set(rows) == set(TOOLS)
    for name, tool in TOOLS.items():
        missing = [field for field in tool.arguments.model_fields if f"`{field}`" not in rows[name]]
        assert not missing, f"{name}: {missing}"
        assert (tool.name in PROFILES["lean"]) == ("*rare*" not in rows[name])
    for prompt in PROMPTS.values():
        assert f"`{prompt.name}`" in page
        assert all(f"`{argument.name}`" in page for argument in prompt.arguments)


def test_every_command_and_option_of_demarkus_is_told_of() -> None:
    asking = ("status", "token", "verify", "plan")
    shared = set.intersection(*(options(demarkus.commands[name]) for name in asking))
    assert shared <= set(re.findall(r"--?[A-Za-z-]+", section("demarkus")))
    assert told_of_commands("demarkus") == {
        name: options(command) - (shared if name in asking else set()) for name, command in demarkus.commands.items()
    }


def test_every_command_and_option_of_mark_is_told_of() -> None:
    shared = options(mark.commands["versions"])
    assert shared <= set(re.findall(r"--[a-z]+", section("mark").replace("`mark --ca", "")))
    assert told_of_commands("mark") == {name: options(command) - shared for name, command in mark.commands.items()}
    usages = {row.split("`")[1] for row in section("mark").splitlines() if row.startswith("| `")}
    assert usages == {" ".join([name, *arguments(command)]) for name, command in mark.commands.items()}


def test_every_option_and_variable_of_serve_is_told_of() -> None:
    there = {
        (option, parameter.envvar if isinstance(parameter.envvar, str) else "")
        for parameter in serve.command.params
        for option in parameter.opts
        if option.startswith("--")
    }
    told = set()
    for row in section("demarkus-world serve").splitlines():
        if row.startswith("| `"):
            cells = row.split("|")
            found = re.findall(r"--[a-z-]+", cells[1])
            told |= set(zip(found, re.findall(r"DEMARKUS_\w+", cells[2]) or [""], strict=True))
    assert told == there


def test_every_command_and_option_of_token_is_told_of() -> None:
    commands = token_command.command.commands
    assert told_of_commands("demarkus-world token") == {name: options(command) for name, command in commands.items()}


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
