"""Row groups of Parquet files that a join skips: the result is that of complete files."""

import datetime as dt
import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg
from tidegate import _tidegate
from tidegate.io import pruning
from tidegate.io.open_tables import open_table
from tidegate.io.pruning import bytes_of, coded_columns, pruned, row_groups, spans

SEEDS = range(campaign.tries(5))
GROUP_ROWS = 4
KINDS = [
    pa.int64(),
    pa.int32(),
    pa.date32(),
    *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
]


def side(chance: random.Random, name: str, kind: pa.DataType) -> pa.Table:
    """Create rows almost in time order, so that row groups cover ranges of times."""
    count = chance.choice([1, 10, 60])
    start = chance.choice([-50, 0, 40, 1000])
    times = sorted(start + chance.randrange(60) for _ in range(count))
    if chance.random() < 0.3:
        chance.shuffle(times)
    storage = pa.int32() if kind in (pa.date32(), pa.int32()) else pa.int64()
    return pa.table(
        {
            "ts": pa.array(times, storage).cast(kind),
            "k": pa.array([chance.choice(["a", "b", None]) for _ in times], pa.string()),
            name: pa.array(
                [None if chance.random() < 0.1 else chance.randrange(30) for _ in times], pa.int64()
            ),
            f"{name}_float": [chance.choice([float("nan"), -0.0, 0.5, 7.0]) for _ in times],
        }
    )


def written(table: pa.Table, folder, name: str, chance: random.Random):
    """Write the table to one or two files, in small row groups."""
    cut = chance.randrange(table.num_rows + 1)
    (folder / name).mkdir()
    for number, part in enumerate((table.slice(0, cut), table.slice(cut))):
        pq.write_table(part, folder / name / f"{number}.parquet", row_group_size=GROUP_ROWS)
    return folder / name


WHERES = [
    None,
    "left.x > 20",
    "right.y <= 5 and left.x < right.y",
    "right.y between 3 and 9",
    "7 = left.x and right.y_float > 1",
    "left.x_float <= 0.0",
    "right.y_float != 0.5",
    "left.k = 'b'",
    "left.x > 5 or right.y > 5",
]


def one_query(chance: random.Random, kind: pa.DataType):
    """Draw a function and its arguments except the inputs."""
    unit = "" if pa.types.is_integer(kind) else "d" if kind == pa.date32() else kind.unit
    length = lambda number: number if unit == "" else f"{number}{unit}"  # noqa: E731 - shorter
    common = {"on": "ts", "by": chance.choice([None, "k"]), "where": chance.choice(WHERES)}
    match chance.choice(["interval", "interval", "aggs", "asof", "window", "rows", "band"]):
        case "interval":
            ends = sorted(chance.choice([-60, -9, 0, 3, 40]) for _ in range(2))
            how = chance.choice(["inner", "left", "right", "full", "semi", "anti"])
            lower, upper = (chance.choice([None, length(end)]) for end in ends)
            closed = chance.choice(["both", "neither"])
            more = {"lower": lower, "upper": upper, "how": how, "closed": closed}
            return tg.interval_join, common | more
        case "aggs":
            more = {
                "lower": length(-5),
                "upper": length(2),
                "aggs": {"n": tg.agg.count(), "last": tg.agg.last("y")},
                "prevailing": chance.choice([False, True]),
                "how": chance.choice(["left", "inner"]),
            }
            return tg.interval_join, common | more
        case "asof":
            more = {
                "strategy": chance.choice(["backward", "forward", "nearest"]),
                "tolerance": chance.choice([None, length(7)]),
                "how": chance.choice(["left", "inner", "semi", "anti"]),
            }
            return tg.asof_join, common | more
        case "window":
            return tg.window_join, common | {"window": (length(4), length(9))}
        case "rows":
            how = chance.choice(["inner", "left"])
            return tg.window_join, common | {"window": tg.rows(3), "how": how}
    how = chance.choice(["inner", "full", "anti"])
    return tg.band_join, common | {"on": [("x", "y")], "within": 2, "how": how}


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("seed", SEEDS)
def test_rows_of_pruned_files_are_the_rows_of_tables(seed, kind, tmp_path):
    chance = random.Random(f"{seed} {kind}")  # noqa: S311 - not for secrets
    for number in range(6):
        left, right = side(chance, "x", kind), side(chance, "y", kind)
        function, query = one_query(chance, kind)
        (folder := tmp_path / str(number)).mkdir()
        files = [written(left, folder, "left", chance), written(right, folder, "right", chance)]
        # Parquet has no seconds, so they become milliseconds.
        left, right = (pq.read_table(file) for file in files)
        in_memory = chance.randrange(8)
        files = [left, files[1]] if in_memory == 0 else files
        files = [files[0], right] if in_memory == 1 else files
        expected = function(left, right, **query)
        found = function(*files, **query)
        assert found.schema == expected.schema
        assert str(found.to_pylist()) == str(expected.to_pylist()), query


def read_of(left, right, **query):
    """Return the number of rows in the remaining row groups of both sides."""
    join = _tidegate.interval_join_query(on="ts", **query)
    plan = join.plan(left.schema, right.schema)
    return tuple(
        sum(group.metadata.num_rows for group in row_groups(side))
        for side in pruned(left, right, plan, join.how)
    )


@pytest.fixture
def two_files(tmp_path):
    """Write ten row groups per side, of ten rows each; the right side begins at 50."""
    left = pa.table({"ts": np.arange(100), "x": np.arange(100)})
    right = pa.table({"ts": np.arange(50, 150), "y": np.arange(100) // 10})
    for name, table in (("left", left), ("right", right)):
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=10)
    return tuple(tmp_path / f"{name}.parquet" for name in ("left", "right"))


@pytest.mark.parametrize(
    ("how", "rows"),
    [
        ("inner", (60, 60)),
        ("semi", (60, 60)),
        ("left", (100, 60)),
        ("anti", (100, 60)),
        ("right", (60, 100)),
        ("full", (100, 100)),
    ],
)
def test_row_groups_that_no_row_of_the_other_side_reaches_are_not_read(two_files, how, rows):
    left, right = (open_table(path) for path in two_files)
    assert read_of(left, right, lower=0, upper=10, how=how) == rows


def test_one_bound_alone_leaves_out_what_is_beyond_it(two_files):
    left, right = (open_table(path) for path in two_files)
    assert read_of(left, right, lower=None, upper=0) == (50, 50)
    assert read_of(left, right, lower=0, upper=None) == (100, 100)


def test_bytes_of_what_is_left_out_are_not_read(two_files):
    """Damage the first row group of the left file; only calls that need it fail."""
    left, right = two_files
    end = pq.ParquetFile(left).metadata.row_group(1).column(0).data_page_offset
    damaged = bytearray(left.read_bytes())
    damaged[4 : end - 30] = bytes(end - 34)
    left.write_bytes(damaged)
    query = {"on": "ts", "lower": 0, "upper": 10}
    assert tg.interval_join(left, right, **query).num_rows > 0
    with tg.interval_join_batches(left, right, **query, memory_limit="256MB") as pairs:
        assert sum(batch.num_rows for batch in pairs) > 0
    with pytest.raises(tg.TidegateError, match="left"):
        tg.interval_join(left, right, **query, how="left")


def test_a_table_in_memory_says_which_rows_of_a_file_it_reaches(two_files):
    _, right = two_files
    left = pa.table({"ts": pa.array([75], pa.int64())})
    damaged = bytearray(right.read_bytes())
    end = pq.ParquetFile(right).metadata.row_group(1).column(0).data_page_offset
    damaged[4 : end - 30] = bytes(end - 34)
    right.write_bytes(damaged)
    assert tg.interval_join(left, right, on="ts", lower=0, upper=10).num_rows == 11
    left = pa.table({"ts": pa.array([55], pa.int64())})
    with pytest.raises(tg.TidegateError, match="right"):
        tg.interval_join(left, right, on="ts", lower=0, upper=10)


def test_a_null_time_is_an_error_wherever_it_is(tmp_path):
    left = pa.table({"ts": pa.array([*range(20), 100, None], pa.int64())})
    right = pa.table({"ts": pa.array([1], pa.int64())})
    pq.write_table(left, tmp_path / "left.parquet", row_group_size=5)
    pq.write_table(right, tmp_path / "right.parquet")
    with pytest.raises(tg.TidegateError, match="column `ts`, row 21: the time is null"):
        tg.interval_join(
            tmp_path / "left.parquet", tmp_path / "right.parquet", on="ts", lower=0, upper=0
        )


def test_columns_of_folders_are_kept(tmp_path):
    for day in (1, 2):
        folder = tmp_path / "left" / f"day={day}"
        folder.mkdir(parents=True)
        times = [dt.datetime(2024, 1, day, hour) for hour in range(24)]  # noqa: DTZ001 - naive
        pq.write_table(pa.table({"ts": times}), folder / "x.parquet", row_group_size=6)
    right = pa.table({"ts": [dt.datetime(2024, 1, 2, 13)]})  # noqa: DTZ001 - naive
    pq.write_table(right, tmp_path / "right.parquet")
    files = tmp_path / "left", tmp_path / "right.parquet"
    found = tg.interval_join(*files, on="ts", lower="0s", upper="1h")
    assert found.column("day").to_pylist() == [2, 2]


def test_texts_are_read_as_numbers_of_small_dictionaries_only(tmp_path):
    rows = 20_000
    words = [f"word {row % 7}" for row in range(rows)]
    columns = {
        "few": pa.array(words),
        "few_bytes": pa.array(words).cast(pa.binary()),
        "large": pa.array(words, pa.large_string()),
        "number": np.arange(rows) % 7,
        "plain": pa.array(words),
        # Dictionary indices would need more memory than the strings themselves.
        "all_differ": pa.array([f"{row} {row * 7919 % rows}" for row in range(rows)]),
        "in_a_list": pa.array([[word] for word in words]),
    }
    table = pa.table(columns)
    options = {"use_dictionary": [name for name in columns if name != "plain"]}
    (tmp_path / "all").mkdir()
    pq.write_table(table, tmp_path / "all" / "0.parquet", row_group_size=9_000, **options)
    groups = row_groups(open_table(tmp_path / "all"))
    assert coded_columns(groups, table.schema) == {"few", "few_bytes"}
    # One file without a dictionary is enough.
    pq.write_table(table, tmp_path / "all" / "1.parquet", use_dictionary=["few"])
    groups = row_groups(open_table(tmp_path / "all"))
    assert coded_columns(groups, table.schema) == {"few"}


def test_texts_of_a_large_dictionary_are_read_as_they_are(tmp_path):
    """Dictionary indices would need less memory, but each batch would hold the whole dictionary."""
    chance = np.random.default_rng(1)
    found = {}
    for kinds in (300, 3_000):
        texts = [chance.bytes(50).hex() for _ in range(kinds)]
        table = pa.table({"k": np.take(texts, chance.integers(0, kinds, 250_000))})
        pq.write_table(table, tmp_path / f"{kinds}.parquet")
        groups = row_groups(open_table(tmp_path / f"{kinds}.parquet"))
        [stored] = [group.metadata.column(0) for group in groups]
        assert stored.total_uncompressed_size < 4 * table.num_rows
        found[kinds] = coded_columns(groups, table.schema)
    assert found == {300: {"k"}, 3_000: set()}


# The cost of planning


class Counted:
    """The metadata of a row group, which counts column lookups."""

    def __init__(self, metadata) -> None:
        self._metadata = metadata
        self.looks = 0

    def __getattr__(self, name: str):
        return getattr(self._metadata, name)

    def column(self, place: int):
        self.looks += 1
        return self._metadata.column(place)


@pytest.mark.parametrize("columns", [3, 60])
def test_of_each_row_group_a_plan_looks_at_each_column_once(tmp_path, columns):
    names = [f"c{number}" for number in range(columns)]
    table = pa.table({"ts": range(20)} | {name: ["a", "b"] * 10 for name in names})
    pq.write_table(table, tmp_path / "wide.parquet", row_group_size=4)
    opened = open_table(tmp_path / "wide.parquet")
    counted = [Counted(group.metadata) for group in row_groups(opened)]
    groups = [
        replace(group, metadata=metadata)
        for group, metadata in zip(row_groups(opened), counted, strict=True)
    ]

    assert bytes_of(groups, table.schema.names) > 0
    assert [metadata.looks for metadata in counted] == [columns + 1] * 5
    assert spans(groups, "ts", pa.int64()) == [(at, at + 3) for at in range(0, 20, 4)]
    assert [metadata.looks for metadata in counted] == [columns + 2] * 5
    coded_columns(groups, table.schema)
    assert [metadata.looks for metadata in counted] == [2 * columns + 2] * 5


def test_the_schema_of_a_file_is_looked_at_once(tmp_path, monkeypatch):
    pq.write_table(pa.table({"ts": range(20)}), tmp_path / "f.parquet", row_group_size=2)
    looked, places = [], pruning.places_of
    monkeypatch.setattr(pruning, "places_of", lambda footer: looked.append(1) or places(footer))
    assert len(row_groups(open_table(tmp_path / "f.parquet"))) == 10
    assert len(looked) == 1
