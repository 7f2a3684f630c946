"""The lag of a world's event loop out of its metrics: a histogram, so percentiles are as fine as its buckets."""

from __future__ import annotations

import re
from collections.abc import Mapping

_BUCKET = re.compile(r'^demarkus_world_loop_lag_seconds_bucket\{le="([^"]+)"\} (\S+)$', re.MULTILINE)

Buckets = Mapping[float, float]
"""How many turns were late by no more than so many seconds."""


def buckets(metrics: str) -> Buckets:
    """The histogram in the text of `/metrics`."""
    return {float(bound): float(count) for bound, count in _BUCKET.findall(metrics)}


def percentile(share: float, before: Buckets, after: Buckets) -> float:
    """The bound below which this share of the turns between two looks was, straight lines drawn inside a bucket."""
    counts = {bound: after[bound] - before.get(bound, 0.0) for bound in sorted(after)}
    wanted = share * max(counts.values(), default=0.0)
    low_bound = low_count = 0.0
    for bound, count in counts.items():
        if count >= wanted and count > low_count:
            if bound == float("inf"):
                return low_bound
            return low_bound + (bound - low_bound) * (wanted - low_count) / (count - low_count)
        low_bound, low_count = bound, count
    return 0.0
