"""The world model without Spark: imports sources into Delta tables, loads versions into memory."""
