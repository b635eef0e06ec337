"""`ottla consume`: which partitions are read and from where, the loop, and how a record looks."""
