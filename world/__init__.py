"""The world model: sources in, Delta tables out, a snapshot in memory. Without Spark."""
