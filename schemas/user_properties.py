"""Names of the MQTT 5 user properties that carry everything spatial."""

from __future__ import annotations

from typing import Final

NEIGHBORHOOD: Final = "neighborhood"
NSID: Final = "nsid"
PEID: Final = "peid"
WARNING: Final = "warning"
