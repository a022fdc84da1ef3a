"""Builds the subcommand for a query, using the options from the table in `tidegate.options`."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar, cast, get_args, get_type_hints

import typer

from tidegate import types
from tidegate.cli.commands import parsing, running
from tidegate.cli.commands.options import Csv
from tidegate.options import Option, options_of
from tidegate.other_names import HOW

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from tidegate.types import Length

QueryT_co = TypeVar("QueryT_co", covariant=True)


@dataclass(frozen=True)
class Asked(Generic[QueryT_co]):
    """The query, and the values of those options that are not part of the query."""

    query: QueryT_co
    csv: Csv
    memory_limit: str | None = None
    lateness: Length | None = None
    max_width: Length | None = None


# Options that are not arguments of a query.
BESIDE = ("memory_limit", "lateness", "max_width")


def command(
    function: str,
    query: Callable[..., Any],
    *,
    more: Sequence[Option] = (),
    leaves_out: Collection[str] = (),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that turns a function into a subcommand.

    The subcommand accepts the options that the table lists for a function in `tidegate`, followed
    by the options that the decorated function declares. The decorated function receives an `Asked`
    object, and its own options as keyword arguments.

    Args:
        function: The function in `tidegate` whose options the subcommand accepts.
        query: The function that builds the query.
        more: Additional options that the function does not have.
        leaves_out: Options of the function that the subcommand omits.
    """
    options = [
        option
        for option in [*options_of(function), *more]
        if option.command is not None and option.name not in leaves_out
    ]

    def made(work: Callable[..., None]) -> Callable[..., None]:
        def run(**given: Any) -> None:  # noqa: ANN401 - of any option
            csv = taken(given)
            texts = {option.name: given.pop(option.name) for option in options}
            with running.failures_in_one_line(traceback=given["traceback"]):
                values = {option.name: _read(option, texts[option.name]) for option in options}
                beside = {name: values.pop(name) for name in BESIDE if name in values}
                asked = Asked(query(**values), csv, **beside)
            work(asked, **given)

        hints = get_type_hints(work, include_extras=True)
        own = [*inspect.signature(work).parameters.values()][1:]
        own = [*(one.replace(annotation=hints[one.name]) for one in own), *of_csv()]
        inputs = [one for one in own if one.default is inspect.Parameter.empty]
        parameters = [
            *inputs,
            *map(_parameter, options),
            *(one for one in own if one not in inputs),
        ]
        # Keyword-only, because options without a default may follow options that have one.
        named = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
        run.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in named}
        run.__doc__ = work.__doc__
        return run

    return made


def with_csv(work: Callable[..., None]) -> Callable[..., None]:
    """Return a subcommand with the options for CSV input, which it receives as `csv`."""

    def run(**given: Any) -> None:  # noqa: ANN401 - of any option
        work(csv=taken(given), **given)

    hints = get_type_hints(work, include_extras=True)
    own = [one for one in inspect.signature(work).parameters.values() if one.name != "csv"]
    parameters = [*(one.replace(annotation=hints[one.name]) for one in own), *of_csv()]
    named = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    run.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in named}
    run.__doc__ = work.__doc__
    return run


def of_csv() -> list[inspect.Parameter]:
    """Return the options for CSV input as parameters for typer."""
    return [
        inspect.Parameter(
            f"csv_{name}", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind
        )
        for name, kind in get_type_hints(Csv, include_extras=True).items()
    ]


def taken(given: dict[str, Any]) -> Csv:
    """Remove the options for CSV input from the arguments of a subcommand."""
    names = get_type_hints(Csv)
    return cast("Csv", {name: given.pop(f"csv_{name}") for name in names})


def _read(option: Option, text: Any) -> Any:  # noqa: ANN401 - of any option
    """Convert an option's text to a function argument."""
    if text is None or option.command is None or option.command.read is None:
        return text or None if isinstance(text, list) else text
    return getattr(parsing, option.command.read)(text)


def _parameter(option: Option) -> inspect.Parameter:
    """Return the option as a parameter for typer."""
    told = option.command
    assert told is not None  # noqa: S101 - for mypy
    flags = [told.flag] if told.flag else []
    kind = _kind(option)
    metavar, parser = told.metavar, None
    if option.name == "how":
        words = get_args(kind)
        metavar, parser, kind = f"[{'|'.join(words)}]", partial(_how, words), str
    info = typer.Option(
        *flags,
        help=told.help,
        metavar=metavar,
        parser=parser,
        min=told.least,
        show_default=told.shown_default,
    )
    is_required = option.default is None or told.is_required
    if not is_required and option.default == "None":
        kind |= None
    default: object = inspect.Parameter.empty
    if not is_required:
        default = ast.literal_eval(str(option.default))
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, info],
    )


def _how(words: tuple[str, ...], text: str) -> str:
    """Return the value of `--how`, or show what to write instead of another library's value."""
    if text in words:
        return text
    message = f"{text!r:.80} is not one of {', '.join(words)}"
    meant = HOW.get(re.sub(r"[-_ ]", "", text.lower()), text.lower())
    if meant in words:
        message += f"; write {meant}"
    raise typer.BadParameter(message)


def _kind(option: Option) -> Any:  # noqa: ANN401 - a type
    """Return the type of an option's value: a choice of words, an integer, a flag or a string."""
    first = option.type.partition(" | ")[0]
    told = option.command
    if told is not None and told.repeats:
        return list[str]
    if told is not None and told.read is not None:
        return str
    if first in {"int", "bool"}:
        return {"int": int, "bool": bool}[first]
    words: tuple[object, ...] = getattr(getattr(types, first, None), "__args__", ())
    has_words = bool(words) and all(isinstance(word, str) for word in words)
    return getattr(types, first) if has_words else str
