"""The versions of a world as Delta tables, read and written without Spark."""
