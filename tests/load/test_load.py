"""A short load with all its faults; `make test-load` goes on for ten minutes and judges the memory too."""

from __future__ import annotations

from tests.load import lag, run


def test_a_world_answers_everybody_while_all_sorts_of_things_fail(tmp_path):
    account = run.run(tmp_path / "world", seconds=8, seed=1, pause=0.5, long=False)
    assert not account.problems, str(account)
    assert account.handshakes >= run.CLIENTS, str(account)
    assert account.ends["answered"] > run.CLIENTS, str(account)
    assert account.ends["LOST"] == 0, str(account)
    assert {"token files", "certificates"} <= set(account.reloads), str(account)


def test_a_percentile_lies_inside_its_bucket():
    metrics = "\n".join(
        f'demarkus_world_loop_lag_seconds_bucket{{le="{bound}"}} {count}'
        for bound, count in (("0.001", "50.0"), ("0.01", "98.0"), ("0.1", "100.0"), ("+Inf", "100.0"))
    )
    after = lag.buckets(metrics)
    assert lag.percentile(0.5, {}, after) == 0.001
    assert round(lag.percentile(0.99, {}, after), 4) == 0.055
    assert lag.percentile(0.99, after, after) == 0.0
