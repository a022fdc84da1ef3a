"""Numbers that Spark's hash puts into wanted partitions.

Before 4.1 it has no other way to place a row, and for rows with a state it has none at all.
"""

from __future__ import annotations


def hashed_to(partitions: int) -> list[int]:
    """For each partition, the least number that Spark's hash puts into it."""
    found: dict[int, int] = {}
    number = 0
    while len(found) < partitions:
        found.setdefault(_hash(number) % partitions, number)
        number += 1
    return [found[partition] for partition in range(partitions)]


def _hash(number: int) -> int:
    """Murmur3 of an int and Spark's seed (`org.apache.spark.unsafe.hash.Murmur3_x86_32`)."""
    mask = 0xFFFFFFFF

    def turned(bits: int, by: int) -> int:
        return (bits << by | bits >> 32 - by) & mask

    block = turned(number * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    bits = (turned(42 ^ block, 13) * 5 + 0xE6546B64 & mask) ^ 4
    bits = (bits ^ bits >> 16) * 0x85EBCA6B & mask
    bits = (bits ^ bits >> 13) * 0xC2B2AE35 & mask
    bits ^= bits >> 16
    return bits - (1 << 32) if bits >> 31 else bits
