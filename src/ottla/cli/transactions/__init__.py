"""`ottla transactions`: a module a command, and what they share."""
