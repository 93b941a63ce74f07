"""Messages that a client sends and that have no answer: MQTT, AMQP, Kafka, syslog."""

import re
import subprocess

from harness.machine import Failed, Process, free_port, listens, wait_until

# Messages that a client sends in one session.
MESSAGES = 20

MOSQUITTO = "listener {plain} 127.0.0.1\nallow_anonymous true\nlistener {tls} 127.0.0.1\ncertfile {chain}\nkeyfile {key}\nuser root\n"
RABBITMQ = """listeners.tcp.1 = 127.0.0.1:{plain}
listeners.ssl.1 = 127.0.0.1:{tls}
ssl_options.cacertfile = {ca}
ssl_options.certfile = {chain}
ssl_options.keyfile = {key}
ssl_options.verify = verify_none
loopback_users = none
"""
SYSLOG_SERVER = """global(workDirectory="{folder}" DefaultNetstreamDriverCAFile="{ca}" DefaultNetstreamDriverCertFile="{chain}"
  DefaultNetstreamDriverKeyFile="{key}")
module(load="imtcp")
input(type="imtcp" port="{plain}" address="127.0.0.1" streamDriver.name="ptcp")
input(type="imtcp" port="{tls}" address="127.0.0.1" streamDriver.name="ossl" streamDriver.mode="1" streamDriver.authMode="anon")
action(type="omfile" file="{received}")
"""
SYSLOG_CLIENT = """global(workDirectory="{folder}" DefaultNetstreamDriverCAFile="{ca}")
module(load="imfile")
input(type="imfile" file="{source}" tag="t" freshStartTail="off")
action(type="omfwd" target="localhost" port="{port}" protocol="tcp" StreamDriver="ossl" StreamDriverMode="1" StreamDriverAuthMode="x509/name"
  StreamDriverPermittedPeers="localhost")
"""


def files(place):
    return {"ca": place.ca, "chain": place.certificate.chain, "key": place.certificate.key}


def number_of(path, mark):
    """The lines of a file that have this mark."""
    text = path.read_text(errors="replace") if path.exists() else ""
    return sum(mark in line for line in text.splitlines())


def wait_for_marks(path, mark):
    """What is missing of the messages with this mark, which are lines of a file."""
    try:
        wait_until("the messages", lambda: number_of(path, mark) >= MESSAGES, 10)
    except Failed:
        pass
    count = number_of(path, mark)
    return "" if count == MESSAGES else f"{count} of {MESSAGES} messages arrived"


def mqtt(place):
    folder, plain, tls = place.own_folder("mqtt"), place.plain["mqtt"], place.tls["mqtt"]
    config, received, source = folder / "m.conf", folder / "received", folder / "lines"
    config.write_text(MOSQUITTO.format(plain=plain, tls=tls, **files(place)))
    place.start(["mosquitto", "-c", config], plain, tls)
    subscriber = ["stdbuf", "-oL", "mosquitto_sub", "-p", plain, "-t", "x", "-t", "will", "-F", "%t %p", "-d"]
    Process(subscriber, None, received).wait_for("SUBACK")

    def arrived(mark, wills=0):
        missing = wait_for_marks(received, f"x {mark}")
        if not missing and wills:
            wait_until("the Will", lambda: number_of(received, f"will {mark}"), 10)
        count = number_of(received, f"will {mark}")
        return missing or ("" if count == wills else f"{count} Wills were published")

    def pub(quality):
        def words(port, mark):
            source.write_text("".join(f"{mark}{number}\n" for number in range(MESSAGES)))
            options = f"mosquitto_pub -h localhost -p {port} --cafile {place.ca} -t x -q {quality} --will-topic will --will-payload {mark} -l"
            return ["sh", "-c", f"{options} < {source}"]

        return words

    for quality in (0, 1):
        place.sessions("mqtt", f"MQTT, mosquitto_pub QoS {quality}", pub(quality), arrived)
    place.sessions("mqtt", "MQTT, paho QoS 0", place.python("paho"), arrived)
    place.sessions("mqtt", "MQTT, paho that exits without DISCONNECT", place.python("paho_exits"), lambda mark: arrived(mark, wills=1), ends=False)


def amqp(place):
    folder, plain, tls = place.own_folder("amqp"), place.plain["amqp"], place.tls["amqp"]
    config = folder / "rabbitmq.conf"
    config.write_text(RABBITMQ.format(plain=plain, tls=tls, **files(place)))
    (folder / "plugins").write_text("[].")
    # Erlang's port mapper would become a daemon, and stay.
    mapper = free_port()
    place.start(["epmd", "-address", "127.0.0.1", "-port", mapper], mapper)
    node = {"ERL_EPMD_PORT": str(mapper), "RABBITMQ_CONFIG_FILE": str(config), "RABBITMQ_NODENAME": "ends@localhost",
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder), "HOME": str(folder), "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_PID_FILE": str(folder / "pid")}
    words = ["env", *(f"{name}={value}" for name, value in node.items()), "/usr/lib/rabbitmq/bin/rabbitmq-server"]
    server = Process(words, None, folder / "server.out", folder)
    wait_until("rabbitmq to listen", lambda: listens(plain) and listens(tls), 60, server)

    def arrived(mark):
        count = 0

        def counted():
            nonlocal count
            count = depth(place, mark)
            return count >= MESSAGES

        try:
            wait_until("the messages", counted, 10, pause=0.2)
        except Failed:
            return f"{count} of {MESSAGES} messages arrived"
        return ""

    place.sessions("amqp", "AMQP, pika", place.python("pika"), arrived)


def depth(place, queue):
    """The messages in a queue."""
    import pika

    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", place.plain["amqp"]))
    count = connection.channel().queue_declare(queue, durable=True).method.message_count
    connection.close()
    return count


def mock_cluster(folder):
    """Starts the mock cluster of librdkafka: its port. A session with another address than its own asks for the brokers and ends."""
    words = ["kcat", "-P", "-t", "x", "-b", "localhost:1", "-X", "test.mock.num.brokers=1", "-d", "mock"]
    # A producer lives until its input ends.
    log = Process(words, None, folder / "kcat.out", stdin=subprocess.PIPE).wait_for("bootstrap.servers=127.0.0.1:")
    return int(re.search(r"bootstrap\.servers=127\.0\.0\.1:(\d+)", log).group(1))


def kafka(place):
    def words(port, _mark):
        return ["kcat", "-L", "-m", "10", "-b", f"localhost:{port}", "-X", "security.protocol=ssl", "-X", f"ssl.ca.location={place.ca}"]

    # It may end with a request on its way, which the log calls what it is.
    place.sessions("kafka", "Kafka, kcat -L (librdkafka)", words, ends=False, ways=("front",))


def syslog(place):
    folder, received = place.own_folder("syslog"), place.folder / "syslog" / "received"
    server = folder / "server.conf"
    ports = {"plain": place.plain["syslog"], "tls": place.tls["syslog"]}
    server.write_text(SYSLOG_SERVER.format(folder=folder, received=received, **ports, **files(place)))
    place.start(["rsyslogd", "-n", "-f", server, "-i", folder / "server.pid"], *ports.values())

    def words(port, mark):
        source, config, own = folder / f"{mark}in", folder / f"{mark}conf", folder / mark
        own.mkdir()
        source.write_text("".join(f"{mark}{number}\n" for number in range(MESSAGES)))
        config.write_text(SYSLOG_CLIENT.format(folder=own, source=source, port=port, **files(place)))
        # It ends when the server has all, as an operator's `systemctl restart` would end it.
        wait = f"for i in $(seq 100); do [ $(grep -c {mark} {received}) -ge {MESSAGES} ] && break; sleep 0.1; done"
        return ["sh", "-c", f"rsyslogd -n -f {config} -i {own}/pid & {wait}; kill $!; wait $!"]

    place.sessions("syslog", "syslog, rsyslog (ossl)", words, lambda mark: wait_for_marks(received, mark), times=1)
    place.sessions("syslog", "syslog, a socket that is closed without close_notify", place.python("syslog"),
                   lambda mark: wait_for_marks(received, mark), ends=False)


GROUPS = [
    ("mqtt", ["mosquitto", "mosquitto_pub", "mosquitto_sub"], mqtt),
    ("amqp", ["/usr/lib/rabbitmq/bin/rabbitmq-server"], amqp),
    ("kafka", ["kcat"], kafka),
    ("syslog", ["rsyslogd", "/usr/lib/x86_64-linux-gnu/rsyslog/lmnsd_ossl.so"], syslog),
]
