"""The pages of docs/ that are made from the code: `python -m tools.reference` writes them, and
tests/unit/repo/test_reference.py fails when they are out of date."""
