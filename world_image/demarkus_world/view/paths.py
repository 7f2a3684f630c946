"""What follows from a path alone."""

from collections.abc import Iterator

ROOT = "/"


def ancestors(path: str) -> Iterator[str]:
    """The directories a path lies in, nearest first, the root last."""
    end = path.rfind("/")
    while end > 0:
        yield path[:end]
        end = path.rfind("/", 0, end)
    yield ROOT


def name_of(path: str) -> str:
    """The last segment."""
    return path.rpartition("/")[2]


def is_hidden(name: str) -> bool:
    """Whether listings leave a name out (Mark protocol, LIST)."""
    return name.startswith(".") or name == "versions"
