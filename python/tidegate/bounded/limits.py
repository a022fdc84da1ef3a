"""The `memory_limit` and `lateness` arguments of a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate import _tidegate
from tidegate.bounded import shares

if TYPE_CHECKING:
    from tidegate.types import Bound, Bytes


SIDES = 2


@dataclass(frozen=True)
class Limits:
    """A call's memory limit in bytes, and the lateness of its rows."""

    memory: int
    lateness: Bound | tuple[Bound, Bound]
    in_batches: bool
    """Whether the call returns batches. Otherwise, the result table may use half of the limit."""

    @classmethod
    def of(cls, memory_limit: Bytes | None, lateness: Any, *, in_batches: bool) -> Limits | None:  # noqa: ANN401 - of any kind
        """Return the limits, or None if there is no memory limit.

        Raises:
            TidegateError: `lateness` is given without `memory_limit`, or is neither a bound nor a
                pair of bounds, or `memory_limit` is too small or is not a number of bytes.
        """
        limit = _tidegate.byte_count("memory_limit", memory_limit)
        if isinstance(lateness, tuple) and len(lateness) != SIDES:
            message = f"lateness: expected one bound, or one for each side, got {len(lateness)}"
            raise _tidegate.TidegateError(message)
        if limit is not None:
            limits = cls(limit, lateness, in_batches)
            if limits.of_batches < shares.LEAST:
                least = shares.LEAST if in_batches else 2 * shares.LEAST
                message = "memory_limit: "
                message += f"{limit} bytes leave no room for the batches "
                message += f"that are held simultaneously; give {least} or more, or omit the limit"
                raise _tidegate.TidegateError(message)
            return limits
        if lateness is not None:
            message = "lateness: without memory_limit, rows may be in any order; "
            message += 'omit lateness, or give memory_limit, such as memory_limit="2GB"'
            raise _tidegate.TidegateError(message)
        return None

    def of_sides(self) -> tuple[Bound, Bound]:
        """Return the lateness on each side of a join."""
        late = self.lateness
        return late if isinstance(late, tuple) else (late, late)

    @property
    def of_batches(self) -> int:
        """The number of bytes that are available for everything except the result table."""
        return self.memory if self.in_batches else self.memory // 2
