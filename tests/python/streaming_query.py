"""A process that goes on with a streaming join, from a folder of `streaming` to Parquet files.

Its argument is the folder; the process ends once the input is used up.
"""

import sys
from pathlib import Path

import streaming
from spark_session import settings, start

HOW = "full"


def main() -> None:
    folder = Path(sys.argv[1])
    spark = start()
    with settings(spark, **streaming.STORE):
        query = (
            streaming.joined(spark, folder, how=HOW)
            .writeStream.trigger(availableNow=True)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .format("parquet")
            .start(str(folder / "found"))
        )
        query.awaitTermination()


if __name__ == "__main__":
    main()
