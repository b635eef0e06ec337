"""`ottla pipeline`: a module a command, and what they share."""
