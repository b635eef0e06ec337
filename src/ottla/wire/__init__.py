"""Bytes to messages and back: schemas, compiled codecs, headers and framing. No sockets here."""
