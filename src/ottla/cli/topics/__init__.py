"""`ottla topics`: a module a command, and what they share."""
