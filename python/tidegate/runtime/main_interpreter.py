"""Refuses subinterpreters: NumPy and pyarrow support none, and the process would hang at exit."""

import importlib


def in_subinterpreter() -> bool:
    """Say whether this is not the interpreter that the process began with."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            interpreters = importlib.import_module(name)
        except ImportError:
            continue
        return bool(interpreters.get_current() != interpreters.get_main())
    # An interpreter without such modules has no other one.
    return False


if in_subinterpreter():
    message = (
        "tidegate cannot be used in a subinterpreter, nor can pyarrow and NumPy; import it in "
        "the main interpreter, or start a process instead"
    )
    raise ImportError(message)
