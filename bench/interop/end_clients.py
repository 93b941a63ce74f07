"""Clients in Python, each in a process of its own, as their ends are those of the process too: CLIENT PORT CA MARK COUNT.

Out: exit code 0; 3 with the package's name where the client is not installed.
"""

import ssl
import sys

MISSING = {
    "paho": "python3-paho-mqtt", "pika": "python3-pika", "ldap3": "python3-ldap3", "psycopg": "python3-psycopg", "psycopg2": "python3-psycopg2",
    "asyncpg": "python3-asyncpg", "pymysql": "python3-pymysql",
}


def context(ca):
    return ssl.create_default_context(cafile=ca)


def paho(port, ca, mark, count, leaves=True):
    """Publishes, then disconnects (or just closes) at once."""
    from paho.mqtt import client as mqtt

    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=mark)
    client.tls_set_context(context(ca))
    client.will_set("will", mark)

    def on_connect(client, *_):
        for number in range(count):
            client.publish("x", f"{mark}{number}")
        if leaves:
            client.disconnect()

    client.on_connect = on_connect
    client.connect("localhost", port)
    if leaves:
        client.loop_forever()
        return
    client.on_publish = lambda client, user, number, *_: number == count and sys.exit()
    client.loop_forever()


def paho_exits(port, ca, mark, count):
    paho(port, ca, mark, count, leaves=False)


def pika(port, ca, mark, count):
    import pika as amqp

    options = amqp.SSLOptions(context(ca), "localhost")
    connection = amqp.BlockingConnection(amqp.ConnectionParameters("localhost", port, ssl_options=options))
    channel = connection.channel()
    channel.queue_declare(mark, durable=True)
    for number in range(count):
        channel.basic_publish("", mark, str(number).encode())
    connection.close()


def imaplib(port, ca, _mark, _count):
    import imaplib as imap

    client = imap.IMAP4_SSL("localhost", port, ssl_context=context(ca))
    client.login("bob", "secret")
    client.logout()


def smtplib(port, ca, mark, _count):
    import smtplib as smtp

    with smtp.SMTP_SSL("localhost", port, context=context(ca)) as client:
        client.sendmail("a@example.org", ["b@example.org"], f"Subject: {mark}\r\n\r\nhello\r\n")


def ldap3(port, ca, _mark, _count):
    import ldap3 as ldap

    tls = ldap.Tls(validate=ssl.CERT_REQUIRED, ca_certs_file=ca)
    server = ldap.Server("localhost", port, use_ssl=True, tls=tls)
    connection = ldap.Connection(server, "cn=admin,dc=example,dc=org", "secret", auto_bind=True)
    assert connection.extend.standard.who_am_i()
    connection.unbind()


def psycopg(port, ca, mark, _count):
    import psycopg as pg

    insert(pg.connect(f"host=localhost port={port} user=postgres sslmode=verify-full sslrootcert={ca}"), mark)


def psycopg2(port, ca, mark, _count):
    import psycopg2 as pg

    insert(pg.connect(f"host=localhost port={port} user=postgres sslmode=verify-full sslrootcert={ca}"), mark)


def pymysql(port, ca, mark, _count):
    import pymysql as my

    insert(my.connect(host="localhost", port=port, user="bob", password="secret", database="test", ssl={"ca": ca}), mark)


def insert(connection, mark):
    connection.cursor().execute("insert into marks values (%s)", (mark,))
    connection.commit()
    connection.close()


def asyncpg(port, ca, mark, _count):
    import asyncio

    import asyncpg as pg

    async def run():
        connection = await pg.connect(host="localhost", port=port, user="postgres", database="postgres", ssl=context(ca))
        await connection.execute("insert into marks values ($1)", mark)
        await connection.close()

    asyncio.run(run())


def syslog(port, ca, mark, count):
    """Frames of RFC 6587, and an end without close_notify, which RFC 5425 forbids: a socket that a program just closes."""
    import socket

    with context(ca).wrap_socket(socket.create_connection(("localhost", port)), server_hostname="localhost") as connection:
        for number in range(count):
            connection.sendall(f"<13>1 - host app - - - {mark}{number}\n".encode())


def main():
    name, port, ca, mark, count = sys.argv[1:]
    try:
        globals()[name](int(port), ca, mark, int(count))
    except ModuleNotFoundError as missing:
        print(f"not installed: {MISSING.get(missing.name.partition('.')[0], missing.name)}")
        sys.exit(3)


main()
