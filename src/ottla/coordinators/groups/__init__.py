"""The group coordinator: both protocols, and committed offsets."""
