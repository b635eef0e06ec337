"""`ottla groups`: a module a command, and what they share."""
