"""Imports by Arrow batches: tasks for Spark, by the functions of an import in one process."""
