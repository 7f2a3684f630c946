"""The children of the example universe, as reviewed.

WRITE_GOLDEN=1 writes the files anew; the difference is then to be reviewed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from demarkus_operator.api.check import problems

EXAMPLES = Path(__file__).parents[2] / "examples" / "universe"
GOLDEN = Path(__file__).parent / "golden"


def _examples() -> list[dict[str, Any]]:
    manifests = [yaml.safe_load(file.read_text()) for file in sorted(EXAMPLES.glob("*.yaml"))]
    return [{**manifest, "metadata": {**manifest["metadata"], "namespace": "acme"}} for manifest in manifests]


def _reviewable(manifest: dict[str, Any]) -> dict[str, Any]:
    """Without what another run makes otherwise, and without secrets."""
    metadata = {key: value for key, value in manifest["metadata"].items() if key not in ("creationTimestamp", "uid")}
    metadata.pop("resourceVersion")
    for owner in metadata.get("ownerReferences", ()):
        owner["uid"] = "..."
    reviewable = {**manifest, "metadata": metadata}
    if manifest["kind"] == "Secret":
        kinds = {name.partition("-")[0] if name.endswith(".pem") else name for name in manifest["data"]}
        reviewable["data"] = sorted(kinds)
    elif "ca.crt" in manifest.get("data", {}):
        reviewable["data"] = {**manifest["data"], "ca.crt": "..."}
    return reviewable


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks, so that they can be read."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def test_examples_are_valid_and_one_file_each() -> None:
    examples = _examples()
    assert {(manifest["kind"], manifest["metadata"]["name"]) for manifest in examples} == {
        ("Universe", "acme"),
        ("World", "handbook"),
        ("World", "packages"),
    }
    assert [problems(manifest) for manifest in examples] == [()] * len(examples)


@pytest.mark.parametrize("component", ["acme", "handbook", "packages"])
def test_children_are_as_reviewed(cluster: Any, component: str) -> None:
    for manifest in _examples():
        cluster.put(manifest)
    cluster.settle()
    children = [
        _reviewable(dict(manifest))
        for ref, manifest in sorted(cluster.objects.items())
        if manifest["metadata"].get("labels", {}).get("app.kubernetes.io/instance") == component
    ]
    text = yaml.dump_all(children, Dumper=_Dumper, sort_keys=False, width=120)
    file = GOLDEN / f"{component}.yaml"
    if os.environ.get("WRITE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()
