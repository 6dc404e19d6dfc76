"""The spatial meaning: relations, conditions and stages for both engines. No session, no I/O.

Modules that need Spark have ``sedona`` in their name; the others never import it, because
the broker stands on them.
"""
