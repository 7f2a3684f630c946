"""Configuration files as text, and hashes of configuration."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import yaml


def yaml_text(document: Mapping[str, Any]) -> str:
    """The document as YAML, in its own order, without aliases."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120)


def digest(value: Any) -> str:
    """SHA-256 of a value, 64 hex."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True
