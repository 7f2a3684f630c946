"""Quantities, as Kubernetes writes them: of bytes, whole numbers with an optional unit (`10Gi`, `500M`); of processors,
cores or thousandths of them (`2`, `0.5`, `500m`).
"""

from __future__ import annotations

import re

PATTERN = r"^[1-9][0-9]{0,14}(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$"
CPU_PATTERN = r"^([1-9][0-9]{0,5}m|[1-9][0-9]{0,3}|(0|[1-9][0-9]{0,3})[.][0-9]{0,2}[1-9])$"

# Largest first: the spelling of a quantity uses the first unit of its family that divides it.
_BINARY = {"Ei": 1 << 60, "Pi": 1 << 50, "Ti": 1 << 40, "Gi": 1 << 30, "Mi": 1 << 20, "Ki": 1 << 10}
_DECIMAL = {"E": 10**18, "P": 10**15, "T": 10**12, "G": 10**9, "M": 10**6, "k": 10**3, "": 1}
_UNITS = {**_BINARY, **_DECIMAL}
_PARTS = re.compile(r"([0-9]+)([A-Za-z]*)")


def number_of_bytes(quantity: str) -> int:
    """The number a quantity stands for. Raises ValueError on anything that is not a whole number with a unit."""
    match = _PARTS.fullmatch(quantity)
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"{quantity!r} is not a whole number with one of the units {' '.join(filter(None, _UNITS))}")
    return int(match[1]) * _UNITS[match[2]]


def canonical(quantity: str) -> str:
    """The spelling in which the API server gives a quantity back: the largest unit of its family that fits.

    Without this a child with `1024Mi` would differ for ever from the `1Gi` that is read.
    """
    size = number_of_bytes(quantity)
    family = {**_BINARY, "": 1} if quantity.endswith("i") else _DECIMAL
    unit = next(unit for unit, factor in family.items() if size % factor == 0)
    return f"{size // family[unit]}{unit}"


def millicores(quantity: str) -> int:
    """The thousandths of a core that a quantity of processors stands for. Raises ValueError."""
    if re.fullmatch(CPU_PATTERN.removeprefix("^").removesuffix("$"), quantity) is None:
        raise ValueError(f"{quantity!r} is not a number of cores such as 2, 0.5 or 500m")
    if quantity.endswith("m"):
        return int(quantity[:-1])
    whole, _, thousandths = quantity.partition(".")
    return int(whole) * 1000 + int(thousandths.ljust(3, "0") or "0")


def canonical_cpu(quantity: str) -> str:
    """The spelling in which the API server gives a quantity of processors back."""
    thousandths = millicores(quantity)
    return f"{thousandths}m" if thousandths % 1000 else str(thousandths // 1000)
