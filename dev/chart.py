"""Makes the parts of the operator's chart that follow from something else: `python -m dev.chart` writes them.

    files/rights.yaml    rules of the roles, from `demarkus_operator.cluster.rbac`
    values.schema.json   what values may be, from values.yaml
    README.md            what values do, from the comments in values.yaml

A test keeps the files equal to what this makes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from demarkus_operator.cluster import rbac

CHART = Path(__file__).resolve().parents[1] / "helm" / "demarkus-operator"
INDENT = 2

STRING = {"type": "string"}
PORT = {"type": "integer", "minimum": 1, "maximum": 65535}
NAME = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}
NARROWER: Mapping[str, Mapping[str, Any]] = {
    "watchNamespaces": {"items": NAME, "uniqueItems": True},
    "imagePullSecrets": {"items": STRING},
    "worldImagePullSecrets": {"items": STRING},
    "worldDigest": {"pattern": "^(sha256:[0-9a-f]{64})?$"},
    "brokerDigest": {"pattern": "^(sha256:[0-9a-f]{64})?$"},
    "image.digest": {"pattern": "^(sha256:[0-9a-f]{64})?$"},
    "image.pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
    "logLevel": {"enum": ["debug", "info", "warning", "error"]},
    "replicas": {"minimum": 1, "maximum": 5},
    "networkPolicy.ingress": {"items": {"type": "object"}},
    "networkPolicy.egress": {"items": {"type": "object"}},
    "networkPolicy.apiServerPorts": {"items": PORT, "minItems": 1},
    "tolerations": {"items": {"type": "object"}},
    **{
        path: {"additionalProperties": STRING}
        for path in ("serviceAccount.annotations", "podMonitor.labels", "podAnnotations", "podLabels", "nodeSelector")
    },
}
"""What a value may be, where its default does not say it all."""
FREE = ("resources", "affinity")
"""Values that Kubernetes checks."""

README = """\
# demarkus-operator

The operator that runs Worlds and Universes, with their CustomResourceDefinitions.

```sh
helm install demarkus-operator helm/demarkus-operator --namespace demarkus-system --create-namespace
```

For an operator without rights on the whole cluster, name the namespaces that it looks after. Its
CustomResourceDefinitions still need somebody who may make them:

```sh
helm install demarkus-operator helm/demarkus-operator --namespace demarkus-system \\
  --set 'watchNamespaces={{team-a,team-b}}'
```

An upgrade brings newer CustomResourceDefinitions along. An uninstall leaves them, and with them every World and
Universe, unless `crds.keep` is `false`. Running worlds and gateways go on without an operator.

## Values

| value | default | what it does |
|---|---|---|
{rows}
"""


@dataclass(frozen=True, slots=True)
class Value:
    """A line of values.yaml: the dotted path, its default, and the comment above."""

    path: str
    default: Any
    comment: str


def values(text: str) -> Iterator[Value]:
    """All values that have a comment or are no map, in the order of the file."""
    defaults = yaml.safe_load(text)
    comment: list[str] = []
    path: list[str] = []
    for line in text.splitlines():
        words = line.strip()
        if words.startswith("#"):
            comment.append(words.removeprefix("#").strip())
        elif not words:
            comment = []
        elif ":" in words and not words.startswith("-"):
            path = [*path[: (len(line) - len(line.lstrip())) // INDENT], words.partition(":")[0]]
            default = defaults
            for name in path:
                default = default[name]
            if comment:
                yield Value(".".join(path), default, " ".join(comment))
            comment = []


def schema(text: str) -> str:
    """values.schema.json."""
    top = {"$schema": "https://json-schema.org/draft-07/schema#", **_type(yaml.safe_load(text), "")}
    top["properties"]["global"] = {"type": "object"}  # Helm's own
    return json.dumps(top, indent=2) + "\n"


def _type(default: Any, path: str) -> dict[str, Any]:
    narrower = dict(NARROWER.get(path, {}))
    match default:
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer", **narrower}
        case str():
            return {"type": "string", **narrower}
        case list():
            return {"type": "array", **narrower}
        case _ if path in FREE or not default:
            return {"type": "object", **narrower}
        case _:
            properties = {name: _type(value, f"{path}.{name}".lstrip(".")) for name, value in default.items()}
            return {"type": "object", "additionalProperties": False, "properties": properties}


def readme(text: str) -> str:
    """README.md."""
    rows = []
    for value in values(text):
        shown = "" if isinstance(value.default, dict) and value.default else f"`{json.dumps(value.default)}`"
        rows.append(f"| `{value.path}` | {shown} | {value.comment} |")
    return README.format(rows="\n".join(rows))


def rights() -> str:
    """files/rights.yaml."""
    return "# Made from the operator's code (`make chart`).\n" + yaml.safe_dump(rbac.rules(), sort_keys=False)


def files() -> dict[Path, str]:
    """What this makes, by path."""
    text = (CHART / "values.yaml").read_text()
    return {
        CHART / "files" / "rights.yaml": rights(),
        CHART / "values.schema.json": schema(text),
        CHART / "README.md": readme(text),
    }


if __name__ == "__main__":
    for file, content in files().items():
        file.write_text(content)
        print(file)
