"""The one broker that decides for the cluster: which topics there are, and where."""
