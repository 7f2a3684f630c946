"""`python -m tests.fuzz.one TARGET FOLDER [libFuzzer option ...]`: one target, guided by what of our code it reaches.

The target `any` is all of them, chosen by the first byte. Inputs that reach something new are added to FOLDER. The
first one that fails ends the process with status 77; it is in the file that libFuzzer names. A file instead of FOLDER
is tried once.
"""

from __future__ import annotations

import sys

import atheris

ANY = "any"


def main() -> None:
    """Instruments, and hands over to libFuzzer."""
    name, *options = sys.argv[1:]
    with atheris.instrument_imports(include=["mark_protocol"], enable_loader_override=False):
        from tests.fuzz.targets import TARGETS, WORDS, any_of_them
    atheris.Setup(
        [sys.argv[0], f"-dict={WORDS}", *options],
        any_of_them if name == ANY else TARGETS[name],
        enable_python_coverage=True,
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
