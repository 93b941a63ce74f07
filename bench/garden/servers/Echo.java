import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.StringJoiner;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.handler.AbstractHandler;

/** The echo on Jetty 11: `java Echo PORT`. */
public class Echo extends AbstractHandler {
    private final Map<Integer, Integer> counts = new HashMap<>();

    /** A JSON string. */
    static String text(String value) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : value.toCharArray()) {
            out.append(c < 32 || c > 126 || c == '"' || c == '\\' ? String.format("\\u%04x", (int) c) : String.valueOf(c));
        }
        return out.append('"').toString();
    }

    /** The number of this request on its connection. */
    private synchronized int count(int port) {
        return counts.merge(port, 1, Integer::sum);
    }

    /** Writes one line about the request to the file SEEN, and responds with it. */
    @Override
    public void handle(String path, Request base, HttpServletRequest request, HttpServletResponse response)
            throws IOException {
        byte[] body = null;
        try (InputStream in = request.getInputStream()) {
            body = in.readAllBytes();
        } catch (Exception cutOff) {
            // The content was cut off or malformed: `length` is null.
        }
        StringJoiner headers = new StringJoiner(",", "[", "]");
        for (String name : Collections.list(request.getHeaderNames())) {
            for (String value : Collections.list(request.getHeaders(name))) headers.add("[" + text(name) + "," + text(value) + "]");
        }
        String query = request.getQueryString() == null ? "" : "?" + request.getQueryString();
        int number = count(request.getRemotePort());
        String line = "{\"method\":" + text(request.getMethod()) + ",\"target\":" + text(request.getRequestURI() + query)
            + ",\"headers\":" + headers + ",\"length\":" + (body == null ? "null" : body.length) + ",\"body\":\"" + (body == null ? "" : HexFormat.of().formatHex(body, 0, Math.min(body.length, 512)))
            + "\",\"connection\":\"" + request.getRemotePort() + "\",\"number\":" + number + "}";
        Files.writeString(Path.of(System.getenv("SEEN")), line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        response.setContentType("application/json");
        response.setContentLength(line.length());
        response.getOutputStream().write(line.getBytes("UTF-8"));
        base.setHandled(true);
    }

    public static void main(String[] words) throws Exception {
        Server server = new Server();
        ServerConnector connector = new ServerConnector(server);
        connector.setHost("127.0.0.1");
        connector.setPort(Integer.parseInt(words[0]));
        server.addConnector(connector);
        server.setHandler(new Echo());
        server.start();
        server.join();
    }
}
