"""The arguments `memory_limit` and `lateness` of a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate import _tidegate

if TYPE_CHECKING:
    from tidegate.types import Bound, Bytes


@dataclass(frozen=True)
class Limits:
    """The memory limit of a call in bytes, and how far its rows may be out of order."""

    memory: int
    lateness: Bound | tuple[Bound, Bound]

    @classmethod
    def of(cls, memory_limit: Bytes | None, lateness: Any) -> Limits | None:  # noqa: ANN401 - of any kind
        """Return the limits, or None if there is no memory limit.

        Raises:
            TidegateError: Only `lateness` is given, or `memory_limit` is not a number of bytes.
        """
        limit = _tidegate.byte_count("memory_limit", memory_limit)
        if limit is not None:
            return cls(limit, lateness)
        if lateness is not None:
            message = "lateness: without memory_limit, rows may be in any order; leave "
            message += 'lateness out, or give memory_limit, such as memory_limit="2GB"'
            raise _tidegate.TidegateError(message)
        return None

    def halved(self) -> Limits:
        """Return the limits for the batches of a result table, which may use the other half."""
        return Limits(self.memory // 2, self.lateness)
