"""Answers for operators: why a message does not arrive, and what happens to one client or topic."""
