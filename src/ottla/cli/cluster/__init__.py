"""`ottla cluster`: what it asks, and how it shows that."""
