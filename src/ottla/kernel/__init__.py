"""Words that every layer shares, and the seams through which the world is reached."""
