"""Connections in, requests dispatched, responses out."""
