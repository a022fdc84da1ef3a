"""PySpark, in a version that has what this package uses: checked before anything else is imported.

An older PySpark lacks names here and there, and the error for the first of them says no more.
"""

_LEAST = 4

try:
    import pyspark
except ModuleNotFoundError as error:
    message = "tidegate.spark needs PySpark 4.0 or later, which is not installed; pip install "
    message += "'tidegate[spark]', or install pyspark, protobuf and pandas"
    raise ModuleNotFoundError(message, name="pyspark") from error

if int(pyspark.__version__.partition(".")[0]) < _LEAST:
    message = f"tidegate.spark needs PySpark 4.0 or later, and this is {pyspark.__version__}; call "
    message += "the functions of tidegate inside your own Arrow functions, or install a later one"
    raise ImportError(message)
