"""What ends a connection."""


class BadRequest(Exception):
    """The connection cannot go on: the bytes are no request that this broker understands, or
    there is no other way to tell the client. Kafka closes it then, and so does Ottla."""

    def __init__(self, message: str, *, kind: str = "bad request") -> None:
        super().__init__(message)
        self.kind = kind
        """What is said of one kind is said of each host once a minute."""
