"""Rejects subinterpreters, which NumPy and pyarrow do not support and which hang at exit."""

import importlib


def in_subinterpreter() -> bool:
    """Return whether the current interpreter is not the main interpreter of the process."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            interpreters = importlib.import_module(name)
        except ImportError:
            continue
        return bool(interpreters.get_current() != interpreters.get_main())
    # Without such modules, there is only one interpreter.
    return False


if in_subinterpreter():
    message = (
        "tidegate cannot be used in a subinterpreter, and neither can pyarrow or NumPy; "
        "import it in the main interpreter, or start a process instead"
    )
    raise ImportError(message)
