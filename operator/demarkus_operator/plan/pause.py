"""What goes on while a World or Universe is paused: keys, certificates, tokens, records. What the spec says waits."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from demarkus_operator.plan import labels
from demarkus_operator.plan.objects import Manifest, Observed, Ref


def is_paused(subject: Manifest) -> bool:
    """Whether its owner annotated it so; the annotation's value does not count, unless it is `false`."""
    value = (subject["metadata"].get("annotations") or {}).get(labels.PAUSED)
    return value is not None and value != "false"


def going_on(
    apply: Iterable[Manifest], observed: Observed, *, files: Mapping[Ref, str], records: Container[Ref]
) -> Iterable[Manifest]:
    """What of a plan is applied all the same.

    `files` names of a ConfigMap the file that the spec decides, which stays as it is; `records` are not the spec's.
    """
    for manifest in apply:
        ref = Ref.of(manifest)
        if ref.kind == "Secret" or ref in records:
            yield manifest
        elif ref in files and (live := observed.get(ref)) is not None:
            file = files[ref]
            before = (live.get("data") or {}).get(file)
            yield manifest if before is None else {**manifest, "data": {**manifest["data"], file: before}}
