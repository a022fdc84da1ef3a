"""The settings that `tidegate.spark.configure` makes, in a separate session for each test."""

import numpy as np
import pyarrow as pa
import pytest

import tidegate.spark
from spark_session import start
from tidegate.spark.plan.streams import check_host

MEASURE = "spark.sql.execution.arrow.maxBytesPerBatch"
STORE = "spark.sql.streaming.stateStore.providerClass"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
NAMES = (MEASURE, STORE, CHANGELOG)

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def spark():
    return start().newSession()


def test_a_session_gets_what_it_lacks(spark):
    with pytest.raises(tidegate.TidegateError, match=r"call tidegate\.spark\.configure\(spark\)"):
        check_host(spark)
    before = {name: spark.conf.get(name, None) for name in NAMES}
    changed = tidegate.spark.configure(spark)
    assert changed.keys() == set(NAMES)
    assert all(value != before[name] for name, value in changed.items())
    assert {name: spark.conf.get(name) for name in NAMES} == changed
    check_host(spark)
    assert tidegate.spark.configure(spark) == {}


def test_other_sessions_keep_their_settings(spark):
    other = spark.newSession()
    before = {name: other.conf.get(name, None) for name in NAMES}
    tidegate.spark.configure(spark)
    assert {name: other.conf.get(name, None) for name in NAMES} == before


def test_a_store_of_a_vendor_is_left(spark):
    spark.conf.set(STORE, "com.vendor.RocksDBStateStoreProvider")
    assert STORE not in tidegate.spark.configure(spark)
    assert spark.conf.get(STORE) == "com.vendor.RocksDBStateStoreProvider"


def test_batches_still_have_a_limit_of_rows(spark):
    rows = 25_000
    found = spark.range(rows).repartition(1)
    tidegate.spark.configure(spark)

    def counted(batches):
        yield pa.RecordBatch.from_pydict({"n": [batch.num_rows for batch in batches]})

    sizes = found.mapInArrow(counted, "n long").toArrow()["n"].to_numpy()
    assert np.sum(sizes) == rows
    assert max(sizes) == int(spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch"))
