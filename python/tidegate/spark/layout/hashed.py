"""Finds numbers that Spark's hash assigns to given partitions.

Before Spark 4.1, hashing is the only way to assign a row to a given partition. In stateful
operators, hashing remains the only way in all versions.
"""

from __future__ import annotations


def hashed_to(partitions: int) -> list[int]:
    """Return, for each partition, the smallest number that Spark's hash maps to it."""
    found: dict[int, int] = {}
    number = 0
    while len(found) < partitions:
        found.setdefault(_hash(number) % partitions, number)
        number += 1
    return [found[partition] for partition in range(partitions)]


def _hash(number: int) -> int:
    """Return an int's hash with Spark's seed (`org.apache.spark.unsafe.hash.Murmur3_x86_32`)."""
    mask = 0xFFFFFFFF

    def turned(bits: int, by: int) -> int:
        return (bits << by | bits >> 32 - by) & mask

    block = turned(number * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    bits = (turned(42 ^ block, 13) * 5 + 0xE6546B64 & mask) ^ 4
    bits = (bits ^ bits >> 16) * 0x85EBCA6B & mask
    bits = (bits ^ bits >> 13) * 0xC2B2AE35 & mask
    bits ^= bits >> 16
    return bits - (1 << 32) if bits >> 31 else bits
