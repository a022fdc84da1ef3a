"""The errors raised when the driver asks Spark's Java objects about plans and files.

Spark Connect sessions have no such objects, so PySpark raises one of its errors. The package
`pyspark-client` contains only Spark Connect, and does not install py4j.
"""

from pyspark.errors import PySparkException

try:
    from py4j.protocol import Py4JError
except ModuleNotFoundError:
    NOT_TOLD: tuple[type[Exception], ...] = (PySparkException,)
else:
    NOT_TOLD = (Py4JError, PySparkException)
