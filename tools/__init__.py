"""What the repository's own commands stand on. Nothing of this is in the installed package."""
