"""Names written beside lines instead of a legend, moved apart where they would overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from matplotlib.axes import Axes

# Points between two names in a column or a row, and between a line and its name.
STEP: Final = 11.0
GAP: Final = 10.0
POINTS_OF_INCH: Final = 72.0
SIZE: Final = 8.0
# Room at the right for the names, as a share of the width.
ROOM: Final = 0.3

# Place, height, name and colour of the last point of a line.
End: TypeAlias = tuple[float, float, str, str]


def label_ends(panels: Sequence[tuple[Axes, Sequence[End]]]) -> None:
    """Write names at the right of the lines of all panels of a figure, which are drawn already."""
    widened: list[Axes] = []
    for axes, _ in panels:
        # What shares its horizontal axis is wide enough already.
        if not any(axes.get_shared_x_axes().joined(axes, one) for one in widened):
            _make_room(axes)
            widened.append(axes)
    # Panels may share their axes: only now does everything have its place.
    panels[0][0].figure.canvas.draw()
    for axes, ends in panels:
        if ends:
            _label(axes, ends)


def _label(axes: Axes, ends: Sequence[End]) -> None:
    scale = POINTS_OF_INCH / axes.figure.dpi
    heights = [axes.transData.transform((x, y))[1] * scale for x, y, _, _ in ends]
    right = max(axes.transData.transform((x, y))[0] * scale for x, y, _, _ in ends) + GAP
    for (x, y, name, color), height, wanted in zip(
        ends, heights, moved_apart(heights, STEP), strict=True
    ):
        own = axes.transData.transform((x, y))[0] * scale
        axes.annotate(
            name, (x, y), (right - own, wanted - height), textcoords="offset points",
            color=color, fontsize=SIZE, va="center", annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": color, "lw": 0.5, "shrinkA": 0, "shrinkB": 3},
        )  # fmt: skip


def moved_apart(places: Sequence[float], step: float) -> list[float]:
    """Return places in the same order, at least a step apart, near the given ones."""
    order = sorted(range(len(places)), key=places.__getitem__)
    # Groups of neighbours that touch: their first index in the order, and where each is centred.
    groups: list[tuple[list[int], float]] = []
    for number in order:
        members, centre = [number], places[number]
        while groups:
            before, other = groups[-1]
            half = step * (len(before) + len(members)) / 2
            if centre - other >= half:
                break
            groups.pop()
            centre = (other * len(before) + centre * len(members)) / (len(before) + len(members))
            members = before + members
        groups.append((members, centre))
    found = [0.0] * len(places)
    for members, centre in groups:
        for at, number in enumerate(members):
            found[number] = centre + step * (at - (len(members) - 1) / 2)
    return found


def _make_room(axes: Axes) -> None:
    """Widen the axes to the right."""
    low, high = axes.get_xlim()
    if axes.get_xscale() == "log":
        axes.set_xlim(low, high * (high / low) ** ROOM)
    else:
        axes.set_xlim(low, high + ROOM * (high - low))
