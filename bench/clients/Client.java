import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.WebSocket;
import java.security.cert.X509Certificate;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManager;
import javax.net.ssl.X509TrustManager;

/** java.net.http.HttpClient as a client: `java Client.java PORT`; one line for each check, as client.go. */
public class Client {
    interface Check {
        void run(HttpClient client) throws Exception;
    }

    static String base;

    /** A context that accepts the certificate of the test. */
    static SSLContext context() throws Exception {
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, new TrustManager[] {new X509TrustManager() {
            public void checkClientTrusted(X509Certificate[] chain, String type) {}
            public void checkServerTrusted(X509Certificate[] chain, String type) {}
            public X509Certificate[] getAcceptedIssuers() { return new X509Certificate[0]; }
        }}, null);
        return context;
    }

    static byte[] pattern(int n) {
        byte[] out = new byte[n];
        for (int i = 0; i < n; i++) out[i] = (byte) (i % 251);
        return out;
    }

    static void same(byte[] body, int n) {
        if (!java.util.Arrays.equals(body, pattern(n))) throw new AssertionError(body.length + " bytes, expected " + n + " of the pattern");
    }

    static void get(HttpClient client) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(base + "/bytes?n=1000000")).build();
        HttpResponse<byte[]> response = client.send(request, HttpResponse.BodyHandlers.ofByteArray());
        same(response.body(), 1000000);
        if (response.version() != client.version()) throw new AssertionError("the version is " + response.version());
    }

    static void post(HttpClient client) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(base + "/sum")).expectContinue(true)
            .POST(HttpRequest.BodyPublishers.ofByteArray(pattern(500000))).build();
        String found = client.send(request, HttpResponse.BodyHandlers.ofString()).body();
        if (!found.contains("\"length\":500000")) throw new AssertionError(found);
    }

    static void many(HttpClient client) throws Exception {
        CompletableFuture<?>[] all = new CompletableFuture<?>[40];
        for (int i = 0; i < all.length; i++) {
            int n = i * 1000;
            HttpRequest request = HttpRequest.newBuilder(URI.create(base + "/bytes?n=" + n)).build();
            all[i] = client.sendAsync(request, HttpResponse.BodyHandlers.ofByteArray()).thenAccept(response -> same(response.body(), n));
        }
        CompletableFuture.allOf(all).get(30, TimeUnit.SECONDS);
    }

    static void webSocket(HttpClient client) throws Exception {
        CompletableFuture<String> answer = new CompletableFuture<>();
        WebSocket socket = client.newWebSocketBuilder().buildAsync(URI.create(base.replace("https", "wss") + "/ws"), new WebSocket.Listener() {
            public CompletionStage<?> onText(WebSocket from, CharSequence data, boolean last) {
                answer.complete(data.toString());
                return null;
            }
        }).get(10, TimeUnit.SECONDS);
        socket.sendText("garden", true);
        if (!answer.get(10, TimeUnit.SECONDS).equals("garden")) throw new AssertionError(answer.get());
        socket.sendClose(WebSocket.NORMAL_CLOSURE, "").get(10, TimeUnit.SECONDS);
    }

    static void check(String name, HttpClient client, Check check) {
        try {
            check.run(client);
            System.out.println("ok " + name);
        } catch (Throwable reason) {
            System.out.println("failed " + name + ": " + reason);
        }
    }

    public static void main(String[] words) throws Exception {
        base = "https://localhost:" + words[0];
        for (HttpClient.Version version : HttpClient.Version.values()) {
            HttpClient client = HttpClient.newBuilder().sslContext(context()).version(version).build();
            String name = version == HttpClient.Version.HTTP_2 ? "h2" : "h1";
            check(name + " GET of 1 MB", client, Client::get);
            check(name + " POST with Expect", client, Client::post);
            check(name + " 40 requests at once", client, Client::many);
            check(name + " WebSocket", client, Client::webSocket);
        }
        System.exit(0);
    }
}
