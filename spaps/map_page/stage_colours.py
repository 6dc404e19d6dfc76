"""The colours of stages on a map page."""

from __future__ import annotations

from typing import Final

# The colours of Okabe and Ito, which people with any colour vision can tell apart, without yellow
# (invisible on a light ground) and black (for references).
DISTINCT: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
# Many stages are mostly hops: a ramp from dark to light shows their order better than hues.
RAMP: Final = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (200, 190, 30))


def stage_colours(count: int) -> tuple[str, ...]:
    """Return one colour for each stage, in stage order."""
    if count <= len(DISTINCT):
        return DISTINCT[:count]
    return tuple(_on_ramp(number / (count - 1)) for number in range(count))


def _on_ramp(place: float) -> str:
    """Return the colour at ``place`` (0..1) between the steps of the ramp."""
    at = place * (len(RAMP) - 1)
    lower = min(int(at), len(RAMP) - 2)
    mixed = (
        round(low + (high - low) * (at - lower))
        for low, high in zip(RAMP[lower], RAMP[lower + 1], strict=True)
    )
    return "#" + "".join(f"{channel:02x}" for channel in mixed)
