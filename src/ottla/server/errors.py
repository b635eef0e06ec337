"""What ends a connection."""


class BadRequest(Exception):
    """The connection cannot go on: the bytes are no request that this broker understands, or
    there is no other way to tell the client. Kafka closes it then, and so does Ottla."""
