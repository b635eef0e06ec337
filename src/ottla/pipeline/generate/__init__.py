"""Seeded input for the pipelines, with its true answers beside it. Plain Python, no Spark.

The same seed makes the same bytes on every Python: of `random.Random` only `random()` and the
seeding by a string are used, whose results are promised over versions, and of floats only what
IEEE 754 rounds exactly (no logarithms, no powers, no locale).
"""
