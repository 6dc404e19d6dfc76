"""The limits of the language. Each violation is an error that names the limit."""

from __future__ import annotations

from typing import Final

MAX_PEID: Final = 2**63 - 1
# The descriptor travels as one MQTT UTF-8 string, whose length field has two bytes.
MAX_DESCRIPTOR_BYTES: Final = 65_535
MAX_STAGES: Final = 64
MAX_REFS: Final = 4_096
# Of a name that stands for an entity.
MAX_NAME_CHARACTERS: Final = 1_024
# Of each place: what GEOS does with a pair can grow with the product of the vertices.
MAX_PLACE_VERTICES: Final = 10_000
MAX_CATEGORY_PATTERNS: Final = 256
MAX_CATEGORY_LEVELS: Final = 32
# Bounds the recursion of parser and evaluation, so that no input can overflow the stack.
MAX_CONDITION_DEPTH: Final = 64
MAX_CONDITION_LEAVES: Final = 256
# Half of the Earth's circumference: beyond it a planar distance means nothing.
MAX_DISTANCE_METRES: Final = 20_037_508.0
# The notation has AND, OR and NOT as words, so it can be longer than its descriptor.
MAX_NOTATION_CHARACTERS: Final = 4 * MAX_DESCRIPTOR_BYTES
