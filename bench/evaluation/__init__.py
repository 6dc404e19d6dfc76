"""The evaluation of the original design, repeated here: ``make evaluation``."""
