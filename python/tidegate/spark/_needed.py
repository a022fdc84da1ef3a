"""Checks the version of PySpark before anything else is imported.

Older versions lack some names, and the error from importing such a name would hide the real cause.
"""

_LEAST = (3, 5)

try:
    import pyspark
except ModuleNotFoundError as error:
    message = "tidegate.spark needs PySpark 4.0 or later, which is not installed; "
    message += "run pip install 'tidegate[spark]', or install pyspark, protobuf and pandas"
    raise ModuleNotFoundError(message, name="pyspark") from error

if tuple(map(int, pyspark.__version__.split(".")[:2])) < _LEAST:
    message = "tidegate.spark needs PySpark 4.0 or later, or 3.5 for tables only, "
    message += f"but this is {pyspark.__version__}; "
    message += "install a later version, or call tidegate's functions in your own Arrow functions"
    raise ImportError(message)
