"""The arguments `memory_limit` and `lateness` of a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate import _tidegate

if TYPE_CHECKING:
    from tidegate.types import Bound, Bytes


@dataclass(frozen=True)
class Limits:
    """The most bytes of a call, and how far its rows are out of order."""

    memory: int
    lateness: Bound | tuple[Bound, Bound]

    @classmethod
    def of(cls, memory_limit: Bytes | None, lateness: Any) -> Limits | None:  # noqa: ANN401 - of any kind
        """The limits, if there is a limit of memory.

        Raises:
            TidegateError: Only `lateness` is given, or a number of bytes is not one.
        """
        limit = _tidegate.byte_count("memory_limit", memory_limit)
        if limit is not None:
            return cls(limit, lateness)
        if lateness is not None:
            message = "lateness: rows may be in any order where there is no memory_limit; leave "
            message += 'lateness out, or give memory_limit, such as memory_limit="2GB"'
            raise _tidegate.TidegateError(message)
        return None

    def halved(self) -> Limits:
        """The limits of the batches of a table, which may have the other half."""
        return Limits(self.memory // 2, self.lateness)
