"""Names of the columns of memberships and runs, and of the keys in subscription files."""

from __future__ import annotations

from typing import Final

MEMBERSHIPS_TABLE: Final = "memberships"
RUNS_TABLE: Final = "runs"

SUB_ID: Final = "subId"  # long
PEID: Final = "peid"  # long
STAGE_NO: Final = "stageNo"  # int, counts the written-out stages from 1
VERSION: Final = "version"  # long, the partition column of the Delta table

# Columns of ``runs`` that identify the commit of a run's memberships.
RUN_ID: Final = "runId"  # string
COMMIT: Final = "commit"  # long, the version of the Delta table after it
GENERATION: Final = "generation"  # long, what a push of this run put in force; null before
FINISHED_AT: Final = "finishedAt"  # timestamp
# Columns of ``runs`` that say how many subscriptions were given, and how many have no result.
SUBSCRIPTIONS: Final = "subscriptions"  # long
UNRESOLVED_COUNT: Final = "unresolvedCount"  # long

# The change feed: rows of memberships that a run added or removed, and the two runs.
CHANGES_TABLE: Final = "membershipChanges"
CHANGE: Final = "change"  # string: ADDED or REMOVED
ADDED: Final = "added"
REMOVED: Final = "removed"
FROM_VERSION: Final = "fromVersion"  # long, null for the first run of a feed; so the next two
FROM_RUN: Final = "fromRunId"  # string
FROM_COMMIT: Final = "fromCommit"  # long

# Keys of one line of a subscription file.
DESCRIPTOR: Final = "descriptor"
SUBSCRIPTION_KEYS: Final = (SUB_ID, DESCRIPTOR)
