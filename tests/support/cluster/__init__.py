"""Clusters of real processes, clients that write down what they do and see, and what is asked of
them together."""
