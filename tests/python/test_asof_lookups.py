"""As-of joins with offsets, several matches, and interpolation, compared with plain Python."""

import datetime as dt
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg
from command_line import read, run
from test_tasks import results
from tidegate import _tidegate

STRATEGIES = ["backward", "forward", "nearest"]
HOWS = ["left", "inner", "semi", "anti"]
CONDITIONS: dict[str | None, Callable[[Any, Any], bool | None]] = {
    None: lambda _l, _r: True,
    "right.size > 5": lambda _l, r: r["size"] > 5,
    "left.a < 7 and right.size < 7": lambda a, r: a["a"] < 7 and r["size"] < 7,
    "left.a + right.size > 12": lambda a, r: a["a"] + r["size"] > 12,
}


@dataclass(frozen=True)
class Lookups:
    """The arguments that a lookup in plain Python needs."""

    strategy: str
    exact: bool
    has_key: bool
    where: str | None

    def candidates(
        self, left: pa.Table, right: pa.Table, offset: int, tolerance: int | None
    ) -> list[list[int]]:
        """Return the right rows that may match each left row, nearest first."""
        found = []
        rows = right.to_pylist()
        for one in left.to_pylist():
            ranks = []
            for number, other in enumerate(rows):
                after = other["ts"] - one["ts"] - offset
                is_past = after < 0 or (after == 0 and self.strategy != "forward")
                if self.has_key and (one["k"] is None or one["k"] != other["k"]):
                    continue
                if (after == 0 and not self.exact) or (
                    after != 0 and self.strategy == ("forward" if is_past else "backward")
                ):
                    continue
                if tolerance is not None and abs(after) > tolerance:
                    continue
                if CONDITIONS[self.where](one, other):
                    ranks.append((abs(after), not is_past, -number if is_past else number, number))
            found.append([number for *_, number in sorted(ranks)])
        return found


def side(chance: random.Random, rows: int, value: str, *, in_order: bool) -> pa.Table:
    times = [chance.randrange(120) for _ in range(rows)]
    return pa.table(
        {
            "ts": pa.array(sorted(times) if in_order else times, pa.int64()),
            "k": pa.array([chance.choice([0, 1, 2, None]) for _ in range(rows)], pa.int64()),
            value: pa.array([chance.randrange(9) for _ in range(rows)], pa.int64()),
            f"x_{value}": pa.array([chance.choice([0.5, 1e9, None]) for _ in range(rows)]),
        }
    )


def drawn(chance: random.Random) -> tuple[pa.Table, pa.Table, Lookups, dict[str, Any]]:
    in_order = chance.random() < 0.6
    left = side(chance, chance.choice([0, 30]), "a", in_order=in_order)
    right = side(chance, chance.choice([0, 90]), "size", in_order=in_order)
    lookups = Lookups(
        chance.choice(STRATEGIES),
        chance.random() < 0.7,
        chance.random() < 0.7,
        chance.choice([*CONDITIONS]),
    )
    call = {
        "on": "ts",
        "by": "k" if lookups.has_key else None,
        "strategy": lookups.strategy,
        "allow_exact_matches": lookups.exact,
        "where": lookups.where,
        "threads": chance.randrange(1, 4),
    }
    return left, right, lookups, call


def rows_of(
    left: pa.Table, right: pa.Table, found: list[list[int]], n: int | None, *, has_key: bool
) -> list[dict[str, Any] | None]:
    """Return the right values of each left row, or None for an unmatched row."""
    names = [name for name in right.column_names if name != "k" or not has_key]
    rows = right.to_pylist()
    columns = []
    for candidates in found:
        if not candidates:
            columns.append(None)
        elif n is None:
            columns.append({name: rows[candidates[0]][name] for name in names})
        else:
            some = sorted(candidates[:n], key=lambda row: (rows[row]["ts"], row))
            columns.append({name: [rows[row][name] for row in some] for name in names})
    return columns


def expected(
    left: pa.Table,
    right: pa.Table,
    lookups: Lookups,
    at: dict[str | None, tuple[int, int | None]],
    how: str,
    n: int | None,
    *,
    long: bool,
) -> list[dict[str, Any]]:
    """Return the result rows: single calls, put side by side or below each other."""
    names = [name for name in right.column_names if name != "k" or not lookups.has_key]
    of_each = {
        label: rows_of(
            left, right, lookups.candidates(left, right, *offset), n, has_key=lookups.has_key
        )
        for label, offset in at.items()
    }
    result = []
    for number, one in enumerate(left.to_pylist()):
        matches = {label: found[number] for label, found in of_each.items()}
        groups = [[label] for label in at] if long else [[*at]]
        for labels in groups:
            is_matched = any(matches[label] is not None for label in labels)
            if is_matched != {"left": is_matched, "anti": False}.get(how, True):
                continue
            row = dict(one)
            if long:
                row["at"] = at[labels[0]][0]
            if how in ("left", "inner"):
                for label in labels:
                    values = matches[label] or dict.fromkeys(names)
                    for name in names:
                        plain = name if long or label is None else f"{name}_{label}"
                        row[plain if plain not in left.column_names else f"{plain}_right"] = values[
                            name
                        ]
            result.append(row)
    return result


def files_of(left: pa.Table, right: pa.Table, folder: Path) -> list[Path]:
    files = [folder / "left.parquet", folder / "right.parquet"]
    for file, rows in zip(files, (left, right), strict=True):
        pq.write_table(rows, file, row_group_size=11)
    return files


def check_forms(
    left: pa.Table, right: pa.Table, call: dict[str, Any], wanted: list[Any], folder: Path
) -> None:
    """Compare batches, files, an index and tasks with the expected rows."""
    batches = tg.asof_join_batches(left, right, **call, batch_rows=7)
    assert [row for batch in batches for row in batch.to_pylist()] == wanted
    for parts in (1, 3):
        index = tg.Index(right.slice(0, right.num_rows // parts), on="ts", by=call["by"])
        if parts > 1:
            index.append(right.slice(right.num_rows // parts))
        assert tg.asof_join(left, index, **call).to_pylist() == wanted
    if left["ts"].to_pylist() == sorted(left["ts"].to_pylist()):
        files = files_of(left, right, folder)
        assert tg.asof_join(*files, **call, memory_limit=10**9).to_pylist() == wanted
        scratch = folder / "scratch"
        scratch.mkdir()
        try:
            plan = tg.tasks(tg.asof_join, *files, **call, target=500, scratch=scratch)
        except tg.TidegateError as error:
            assert call["tolerance"] is None and "give a tolerance" in str(error)  # noqa: PT018, PT017 - the other cases have results
        else:
            assert pa.concat_tables(results(plan)).to_pylist() == wanted


@pytest.mark.parametrize("seed", range(campaign.tries(6)))
def test_oracle_single_lookups_put_together(seed: int, tmp_path: Path) -> None:
    chance = campaign.rng(f"lookups {seed}")
    left, right, lookups, call = drawn(chance)
    offsets = chance.sample([-30, -5, -1, 0, 1, 4, 200], chance.randrange(1, 5))
    n = chance.choice([None, None, 1, 3, 50])
    long, how = chance.random() < 0.5, chance.choice(HOWS[: 2 if n else 4])
    one = chance.choice([None, 0, 6])
    tolerance = one if chance.random() < 0.7 else [chance.choice([3, 20]) for _ in offsets]
    each = tolerance if isinstance(tolerance, list) else [tolerance for _ in offsets]
    call |= {"how": how, "at": offsets, "long": long, "n": n, "tolerance": tolerance}
    at = {str(offset): (offset, each[number]) for number, offset in enumerate(offsets)}
    wanted = expected(left, right, lookups, at, how, n, long=long)
    found = tg.asof_join(left, right, **call)
    assert found.to_pylist() == wanted
    found.validate(full=True)
    check_forms(left, right, call, wanted, tmp_path)


@pytest.mark.parametrize("seed", range(campaign.tries(4)))
def test_oracle_the_nearest_n(seed: int, tmp_path: Path) -> None:
    chance = campaign.rng(f"nearest n {seed}")
    left, right, lookups, call = drawn(chance)
    how, n = chance.choice(HOWS[:2]), chance.choice([1, 2, 20, 1000])
    tolerance = chance.choice([None, 0, 25])
    call |= {"how": how, "n": n, "tolerance": tolerance}
    wanted = expected(left, right, lookups, {None: (0, tolerance)}, how, n, long=False)
    assert tg.asof_join(left, right, **call).to_pylist() == wanted
    check_forms(left, right, call, wanted, tmp_path)


def interpolated(
    left: pa.Table, right: pa.Table, lookups: Lookups, offset: int, tolerance: int | None
) -> list[dict[str, Any] | None]:
    """Return the right values of each left row, or None for an unmatched row."""
    before = Lookups("backward", lookups.exact, lookups.has_key, lookups.where)
    after = Lookups("forward", exact=False, has_key=lookups.has_key, where=lookups.where)
    pasts = before.candidates(left, right, offset, tolerance)
    futures = after.candidates(left, right, offset, tolerance)
    rows, found = right.to_pylist(), []
    for ts, past, future in zip(left["ts"].to_pylist(), pasts, futures, strict=True):
        first = rows[past[0]] if past else None
        last = rows[future[0]] if future else None
        is_exact = first is not None and first["ts"] == ts + offset
        if first is None or (last is None and not is_exact):
            found.append(None)
            continue
        values = {"ts": first["ts"]}
        for name in ["size", "x_size"] if lookups.has_key else ["k", "size", "x_size"]:
            if is_exact or first[name] is None:
                values[name] = None if first[name] is None else float(first[name])
                continue
            share = float(ts + offset - first["ts"]) / float(last["ts"] - first["ts"])
            end = last[name]
            values[name] = None if end is None else first[name] + (end - first[name]) * share
        found.append(values)
    return found


@pytest.mark.parametrize("seed", range(campaign.tries(4)))
def test_oracle_interpolation(seed: int, tmp_path: Path) -> None:
    chance = campaign.rng(f"interpolation {seed}")
    left, right, lookups, call = drawn(chance)
    how, tolerance = chance.choice(HOWS), chance.choice([None, 3, 20])
    call |= {"how": how, "strategy": "interpolate", "tolerance": tolerance}
    found = interpolated(left, right, lookups, 0, tolerance)
    names = [name for name in right.column_names if name != "k" or not lookups.has_key]
    wanted = []
    for one, values in zip(left.to_pylist(), found, strict=True):
        if how == "left" or (how == "anti") == (values is None):
            row = dict(one)
            if how in ("left", "inner"):
                for name in names:
                    clash = "_right" if name in left.column_names else ""
                    row[f"{name}{clash}"] = (values or dict.fromkeys(names))[name]
            wanted.append(row)
    assert repr(tg.asof_join(left, right, **call).to_pylist()) == repr(wanted)
    check_forms(left, right, call, wanted, tmp_path)
    moved = tg.asof_join(left, right, **{**call, "how": "left"}, at=[4, -2], long=True)
    for offset in (4, -2):
        of_offset = moved.filter(pc.equal(moved["at"], offset))
        values = interpolated(left, right, lookups, offset, tolerance)
        sizes = [None if one is None else one["size"] for one in values]
        assert of_offset["size"].to_pylist() == sizes


TRADES = pa.table({"ts": [10, 20], "k": ["A", "B"], "price": [1.0, 2.0]})
QUOTES = pa.table({"ts": [8, 10, 13], "k": ["A", "A", "B"], "bid": [9, 8, 7]})


def test_offsets_of_any_type_name_columns() -> None:
    times = [dt.datetime(2024, 5, 6, 7, 8, second) for second in (1, 3, 9)]  # noqa: DTZ001 - naive times
    rows = pa.table({"ts": pa.array(times, pa.timestamp("ms")), "v": [1, 2, 3]})
    at = [" 2s ", dt.timedelta(seconds=-1), np.timedelta64(6500, "ms"), "0s", "PT1M"]
    found = tg.asof_join(
        rows, rows, on="ts", at=at, columns=["v_2s", "v_-1s", "v_6500ms", "v_PT1M"]
    )
    assert found.to_pydict() == {
        "v_2s": [2, 2, 3], "v_-1s": [None, 1, 2], "v_6500ms": [2, 3, 3], "v_PT1M": [3, 3, 3],
    }  # fmt: skip
    long = tg.asof_join(rows, rows, on="ts", at=["2s"], long=True)
    assert long.schema.field("at") == pa.field("at", pa.duration("ms"), nullable=False)
    assert set(long["at"].to_pylist()) == {dt.timedelta(seconds=2)}
    days = pa.table({"ts": [dt.date(2024, 5, 6), dt.date(2024, 5, 8)], "v": [1, 2]})
    long = tg.asof_join(days, days, on="ts", at=["2d"], long=True)
    assert (long["v_right"].to_pylist(), long["at"][0].as_py()) == ([2, 2], dt.timedelta(2))


def test_a_suffix_is_added_only_to_names_of_left_columns() -> None:
    left = TRADES.append_column("bid_-3", pa.array([0, 0]))
    found = tg.asof_join(left, QUOTES, on="ts", by="k", at=[0, -3], suffix="_q")
    assert found.column_names[4:] == ["ts_0", "bid_0", "ts_-3", "bid_-3_q"]
    some = tg.asof_join(left, QUOTES, on="ts", by="k", at=[0, -3], columns=["k", "bid_-3_right"])
    assert some.to_pydict() == {"k": ["A", "B"], "bid_-3_right": [None, 7]}
    with pytest.raises(tg.SchemaError, match="two columns `bid_-3`; choose a suffix"):
        tg.asof_join(left, QUOTES, on="ts", by="k", at=[0, -3], suffix="")
    taken = TRADES.append_column("at", pa.array([0, 0]))
    with pytest.raises(tg.SchemaError, match="two columns `at`"):
        tg.asof_join(taken, QUOTES, on="ts", at=[0], long=True)


def test_computed_times_and_keys_are_not_in_the_result() -> None:
    call: dict[str, Any] = {"on": tg.row.ts + 1, "by": "lower(row.k)", "at": [0, -3]}
    found = tg.asof_join(TRADES, QUOTES, **call)
    names = ["ts", "k", "price", "ts_0", "k_0", "bid_0", "ts_-3", "k_-3", "bid_-3"]
    assert (found.column_names, found["bid_-3"].to_pylist()) == (names, [None, 7])
    long = tg.asof_join(TRADES, QUOTES, **call, long=True)
    assert long.column_names == ["ts", "k", "price", "at", "ts_right", "k_right", "bid"]


ERRORS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"at": "5s"}, TypeError, r'at: expected a list of offsets, such as \["0s", "10s"\], got'),
    ({"at": []}, tg.TidegateError, "at: expected at least one offset, got an empty list"),
    ({"at": [None]}, TypeError, r"at\[0\]: expected an offset, got None"),
    (
        {"at": [1, 0, 1]},
        tg.TidegateError,
        "at: offsets `1` and `1` are equal; leave",
    ),
    ({"at": ["1s"]}, tg.SchemaError, r"at\[0\] is a duration, but the time columns are integers"),
    (
        {"at": [2**63 - 5]},
        tg.TidegateError,
        "moves a time of left beyond the range",
    ),
    (
        {"at": [0, 1], "tolerance": [1]},
        tg.TidegateError,
        "the 2 offsets, got a list with 1",
    ),
    ({"tolerance": [1]}, TypeError, "there are no offsets; give one value, or give at"),
    ({"long": True}, tg.TidegateError, "long: this returns one row per left row and offset"),
    ({"n": 0}, tg.TidegateError, "n must be from 1 to 4294967295, got 0"),
    (
        {"n": 2, "how": "anti"},
        tg.TidegateError,
        "how=`anti` returns no right columns",
    ),
    ({"n": 2, "strategy": "interpolate"}, tg.TidegateError, "returns one value between two rows"),
    ({"at": [0], "max_rows": 1}, tg.MemoryLimitError, "at least 2 rows, more than max_rows = 1"),
    ({"at": [0], "how": "inner", "max_rows": 1}, tg.MemoryLimitError, "more than max_rows = 1"),
]


@pytest.mark.parametrize(("given", "kind", "message"), ERRORS, ids=[text for *_, text in ERRORS])
def test_bad_arguments(given: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        tg.asof_join(TRADES, QUOTES, on="ts", **given)


def test_streams_name_the_call_to_write() -> None:
    schemas = TRADES.schema, QUOTES.schema
    with pytest.raises(TypeError, match="no argument at; only asof_join, called on tables"):
        tg.AsofJoin(*schemas, on="ts", at=[1])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="no argument n; only asof_join, called on tables"):
        tg.AsofJoin(*schemas, on="ts", n=1)  # type: ignore[call-arg]
    for given, message in (
        ({"at": [1]}, "at: a join of streams looks up partners at the time of each left row"),
        ({"n": 1}, "n: a join of streams finds one partner per left row"),
    ):
        with pytest.raises(tg.TidegateError, match=message):
            _tidegate.asof_join_query(on="ts", **given).operator(*schemas)
    with pytest.raises(tg.TidegateError, match="strategy: a join of streams does not interpolate"):
        tg.AsofJoin(*schemas, on="ts", strategy="interpolate")  # type: ignore[arg-type]


def test_the_command(tmp_path: Path) -> None:
    files = [str(file) for file in files_of(TRADES, QUOTES, tmp_path)]
    out, call, keys = tmp_path / "out.arrow", {"on": "ts", "by": "k"}, ("--on", "ts", "--by", "k")

    def found(*options: str) -> pa.Table:
        done = run("asof", *files, *keys, "-o", str(out), "--force", *options)
        assert done.exit_code == 0, done.output
        return read(out)

    at = tg.asof_join(TRADES, QUOTES, **call, at=[0, -2], tolerance=[None, 0])
    assert found("--at", "0,-2", "--tolerance", "none,0") == at
    long = tg.asof_join(TRADES, QUOTES, **call, at=[0], long=True)
    assert found("--at", "0", "--long") == long
    assert found("--n", "2") == tg.asof_join(TRADES, QUOTES, **call, n=2)
    interpolated = tg.asof_join(TRADES, QUOTES, **call, strategy="interpolate")
    assert found("--strategy", "interpolate") == interpolated
