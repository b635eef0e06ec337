"""This broker as a member of its cluster: registered, and following the picture of it."""
