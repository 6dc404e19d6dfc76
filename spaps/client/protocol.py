"""Names and limits that a client and a spaPS broker have in common.

The client is installed without the rest of spaPS, so they are repeated here. A test holds them
equal to those of the broker (``schemas``).
"""

from __future__ import annotations

from typing import Final

# User properties of SUBSCRIBE, SUBACK, UNSUBSCRIBE and PUBLISH.
NEIGHBORHOOD: Final = "neighborhood"
NSID: Final = "nsid"
PEID: Final = "peid"
WARNING: Final = "warning"

# The largest peid and the largest nsid.
MAX_PEID: Final = 2**63 - 1
# A neighborhood travels as one MQTT string, whose length field has two bytes.
MAX_DESCRIPTOR_BYTES: Final = 65_535

# Here the broker tells each subscriber what changed in its own neighborhoods.
CHANGES_TOPIC: Final = "$SYS/broker/neighborhoods/changed"
# The value of "references" when no reference of a neighborhood exists any more.
NONE_LEFT: Final = "none left"

# Reason codes of a SUBACK to a neighborhood that cannot be granted: none of its references exists,
# or the broker serves no neighborhoods; it breaks a rule of the language.
NEIGHBORHOOD_REFUSED: Final = 0x83
NEIGHBORHOOD_MALFORMED: Final = 0x8F
