"""One file for each API. `handle(services, request, context)` returns its response."""
