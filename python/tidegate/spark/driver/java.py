"""The errors raised when the driver asks Spark's Java objects about plans and files.

Sessions of Spark Connect have no such objects: PySpark then raises an error of its own. The package
`pyspark-client`, which has Spark Connect only, does not install py4j.
"""

from pyspark.errors import PySparkException

try:
    from py4j.protocol import Py4JError
except ModuleNotFoundError:
    NOT_TOLD: tuple[type[Exception], ...] = (PySparkException,)
else:
    NOT_TOLD = (Py4JError, PySparkException)
