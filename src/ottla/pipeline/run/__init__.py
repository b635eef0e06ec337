"""Jobs, run and watched."""
