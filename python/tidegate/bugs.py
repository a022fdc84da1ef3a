"""Reports states that can only be caused by a bug in tidegate."""

from typing import NoReturn


def bug(text: str) -> NoReturn:
    """Raise the error for a state that can only be caused by a bug in tidegate.

    Example:
        >>> from tidegate.bugs import bug
        >>> bug("a row without a side")
        Traceback (most recent call last):
        AssertionError: this is a bug in tidegate; please report it: a row without a side
    """
    message = f"this is a bug in tidegate; please report it: {text}"
    raise AssertionError(message)
