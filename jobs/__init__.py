"""Batch jobs, thin: read, transform, write. Run by spark-submit or by a schedule."""
