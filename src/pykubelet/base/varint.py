"""Numbers as protobuf writes them: seven bits at a time, the lowest first."""


def varint(number: int) -> bytes:
    """Of one that is not negative."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
