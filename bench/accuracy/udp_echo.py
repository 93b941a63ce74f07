"""Sends every UDP packet on port 9001 back; listens on TCP port 9000, which is what the lab waits for."""

import socket

waited_for = socket.create_server(("", 9000))
echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
echo.bind(("", 9001))
while True:
    data, address = echo.recvfrom(2000)
    echo.sendto(data, address)
