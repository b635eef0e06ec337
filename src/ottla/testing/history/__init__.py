"""What clients did and saw, and what must hold of it."""
