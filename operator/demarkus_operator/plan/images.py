"""Which image a pod gets.

The registry and name come from the operator, the tag is the version in force. The operator brings digests for its own
version only; they are noted down beside the version, so that what runs stays pinned to them when the operator goes on
to the next version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from demarkus_operator.plan import labels
from demarkus_operator.plan.objects import Manifest
from demarkus_operator.plan.site import Images, Site

WORLD = "world"
BROKER = "broker"


def image(images: Images, which: str, version: str, digests: Mapping[str, str]) -> str:
    """The reference of an image. With a digest the tag is only there for people."""
    repository = images.world if which == WORLD else images.broker
    digest = digests.get(which)
    return f"{repository}:{version}@{digest}" if digest else f"{repository}:{version}"


def digests(version: str, site: Site, beside: Manifest | None) -> dict[str, str]:
    """The digests that belong to a version: the operator's for its own, or else those noted down beside it."""
    return dict(site.images.digests) if version == site.version else noted(version, beside)


def note(version: str, found: Mapping[str, str]) -> dict[str, str]:
    """The annotations that say which version is in force."""
    said = {labels.VERSION: version}
    return {**said, labels.DIGESTS: json.dumps(dict(found), sort_keys=True)} if found else said


def noted(version: str, beside: Manifest | None) -> dict[str, str]:
    """The digests noted down beside a version; none if another one is noted."""
    annotations = {} if beside is None else beside["metadata"].get("annotations") or {}
    return _noted(annotations) if annotations.get(labels.VERSION) == version else {}


def _noted(annotations: Mapping[str, str]) -> dict[str, str]:
    try:
        found = json.loads(annotations.get(labels.DIGESTS, "{}"))
    except ValueError:
        return {}
    return {str(name): str(digest) for name, digest in found.items()} if isinstance(found, dict) else {}
