// Node as a client: fetch, http2 and the package ws. `node client.js PORT`; one line for each check, as client.go.
const http2 = require("http2"), https = require("https"), base = `https://localhost:${process.argv[2]}`;
process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";

const same = (body, n) => {
  if (body.length !== n || !body.every((byte, at) => byte === at % 251)) throw new Error(`${body.length} bytes, expected ${n} of the pattern`);
};
const pattern = (n) => Uint8Array.from({ length: n }, (_, at) => at % 251);

const checks = {
  "fetch, GET of 1 MB": async () => same(new Uint8Array(await (await fetch(base + "/bytes?n=1000000")).arrayBuffer()), 1000000),
  "fetch, POST": async () => {
    const found = await (await fetch(base + "/sum", { method: "POST", body: pattern(300000) })).json();
    if (found.length !== 300000) throw new Error(`the backend received ${found.length} bytes`);
  },
  "fetch, streamed POST": async () => {
    const body = new ReadableStream({ start(out) { for (let n = 0; n < 20; n++) out.enqueue(pattern(5000)); out.close(); } });
    const found = await (await fetch(base + "/sum", { method: "POST", body, duplex: "half" })).json();
    if (found.length !== 100000) throw new Error(`the backend received ${found.length} bytes`);
  },
  "fetch, cut-off response": async () => {
    const response = await fetch(base + "/cut-length").catch(() => null);
    if (response && response.status === 200) {
      const whole = await response.arrayBuffer().then(() => true, () => false);
      if (whole) throw new Error("a response that the backend cut off seems whole");
    }
  },
  "keep-alive agent, 100 requests": async () => {
    const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
    let sockets = new Set();
    for (let n = 0; n < 100; n++) {
      await new Promise((resolve, reject) => https.get(base + "/bytes?n=100", { agent }, (response) => {
        sockets.add(response.socket.localPort);
        response.on("data", () => {});
        response.on("end", resolve);
      }).on("error", reject));
    }
    agent.destroy();
    if (sockets.size !== 1) throw new Error(`${sockets.size} connections for 100 requests`);
  },
  "http2, 20 streams and an upload": () => new Promise((resolve, reject) => {
    const session = http2.connect(base), left = new Set();
    session.on("error", reject);
    const done = (name) => { left.delete(name); if (!left.size) { session.close(); resolve(); } };
    for (let n = 1; n <= 20; n++) {
      left.add(n);
      const stream = session.request({ ":path": `/bytes?n=${n * 1000}` }), parts = [];
      stream.on("data", (part) => parts.push(part));
      stream.on("end", () => { try { same(Buffer.concat(parts), n * 1000); done(n); } catch (error) { reject(error); } });
    }
    left.add("upload");
    const stream = session.request({ ":path": "/echo", ":method": "POST" });
    let length = 0;
    stream.on("data", (part) => { length += part.length; });
    stream.on("end", () => length === 200000 ? done("upload") : reject(new Error(`${length} bytes came back`)));
    stream.end(Buffer.from(pattern(200000)));
  }),
  "ws, messages of 5 and 100,000 bytes": () => new Promise((resolve, reject) => {
    const WebSocket = require("ws"), socket = new WebSocket(base.replace("https", "wss") + "/ws", { rejectUnauthorized: false });
    const sent = [Buffer.from("hello"), Buffer.from(pattern(100000))];
    let count = 0;
    socket.on("open", () => sent.forEach((message) => socket.send(message)));
    socket.on("message", (data) => {
      if (!Buffer.from(data).equals(sent[count++])) reject(new Error("another message came back"));
      if (count === sent.length) { socket.close(); resolve(); }
    });
    socket.on("error", reject);
  }),
};

(async () => {
  for (const [name, run] of Object.entries(checks)) {
    const limit = new Promise((_, reject) => setTimeout(() => reject(new Error("no result within 30 s")), 30000).unref());
    try {
      await Promise.race([run(), limit]);
      console.log(`ok ${name}`);
    } catch (error) {
      console.log(`failed ${name}: ${error.cause || error.message}`);
    }
  }
  process.exit(0);
})();
