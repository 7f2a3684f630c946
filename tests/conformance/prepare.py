"""Makes what a server has to be given before the suite can ask everything: tokens for the roles, and a profile.

    python -m tests.conformance.prepare FOLDER [--alone] [--private]

writes `tokens.toml` for the server (hashes only) and `profile.toml` for the suite (the tokens themselves), both for a
base path that nobody else has.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from tests.conformance.profile import ALONE, EXPIRED_SINCE, ROLES

PROFILE = """\
# How to reach the server, and what it was told. docs/conformance.md explains every key.
host = "localhost"
port = 6309
insecure = true # or: ca = "ca.pem"
base = "{base}"
reads = "{reads}"
history = "compatible"
alone = {alone}
policy = false

[tokens]
"""


def new_base() -> str:
    """A path that nobody else has."""
    return f"/conformance-{secrets.token_hex(4)}"


def new_tokens(*, alone: bool) -> dict[str, str]:
    """Raw tokens by role."""
    roles = (role for role in ROLES if alone or role != ALONE)
    return {role: secrets.token_hex(32) for role in roles} | {"digits": f"1{secrets.randbelow(10**17):017}"}


def token_file(tokens: Mapping[str, str], base: str, *, alone: bool, private: bool = False) -> str:
    """The file that a server loads (Mark protocol 9.1). With `private` nobody reads below the base without a token."""
    text = ""
    for role, raw in tokens.items():
        _, operations, patterns = ROLES[role]
        paths = [pattern.format(base=base) for pattern in patterns]
        if role == "full":
            paths += ["/.well-known/**"] if alone else []
            operations = (*operations, "read") if private else operations
        text += (
            f"\n[tokens.conformance-{role}]\n"
            f'hash = "sha256-{hashlib.sha256(raw.encode()).hexdigest()}"\n'
            f"paths = [{', '.join(map(_quoted, paths))}]\n"
            f"operations = [{', '.join(map(_quoted, operations))}]\n"
        )
        if role == "expired":
            text += f'expires = "{EXPIRED_SINCE}"\n'
    return text


def profile_file(tokens: Mapping[str, str], base: str, *, alone: bool, private: bool = False) -> str:
    """The profile, to be completed by hand."""
    head = PROFILE.format(base=base, alone=str(alone).lower(), reads="private" if private else "public")
    return head + "".join(f'{role} = "{raw}"\n' for role, raw in tokens.items())


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\") + '"'


def main() -> None:
    """Writes both files into a folder, for nobody else to read."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.prepare", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--alone", action="store_true", help="the server will hold nothing else")
    parser.add_argument("--private", action="store_true", help="every read needs a token")
    arguments = parser.parse_args()
    base, tokens = new_base(), new_tokens(alone=arguments.alone)
    choices = {"alone": arguments.alone, "private": arguments.private}
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name, text in (
        ("tokens.toml", token_file(tokens, base, **choices)),
        ("profile.toml", profile_file(tokens, base, **choices)),
    ):
        path = arguments.folder / name
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        print(path)


if __name__ == "__main__":
    main()
