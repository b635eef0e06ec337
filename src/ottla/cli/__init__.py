"""The command line: one file a command, each an ordinary Kafka client except `start`."""
