"""The page of the evaluation, its plots, and what it says about them."""
