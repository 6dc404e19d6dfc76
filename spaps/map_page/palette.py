"""Colours that people with any kind of colour vision can tell apart."""

from __future__ import annotations

from typing import Final

# The set of Okabe and Ito without yellow and black: yellow is lost on a light ground, and
# black is what references are drawn in.
DISTINCT: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
# Many stages are hops mostly: a ramp from dark to light shows their order better than hues.
RAMP: Final = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (200, 190, 30))


def stage_colours(count: int) -> tuple[str, ...]:
    """One colour for each stage, in stage order."""
    if count <= len(DISTINCT):
        return DISTINCT[:count]
    return tuple(_on_ramp(number / (count - 1)) for number in range(count))


def _on_ramp(place: float) -> str:
    """The colour at ``place`` (0..1) between the steps of the ramp."""
    at = place * (len(RAMP) - 1)
    lower = min(int(at), len(RAMP) - 2)
    mixed = (
        round(low + (high - low) * (at - lower))
        for low, high in zip(RAMP[lower], RAMP[lower + 1], strict=True)
    )
    return "#" + "".join(f"{channel:02x}" for channel in mixed)
