"""`ottla demo`: something to watch within a second; the command is in `command.py`."""
