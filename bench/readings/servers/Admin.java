import java.io.IOException;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.HttpConfiguration;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.http.UriCompliance;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/** Servlets on Jetty 11 that guard nothing: `java Admin PORT`. They answer ADMIN below /admin and OPEN elsewhere. Jetty is as tolerant as it can be. */
public class Admin {
    /** Answers with one word. */
    static HttpServlet word(String word) {
        return new HttpServlet() {
            @Override
            protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
                response.getOutputStream().print(word);
            }
        };
    }

    public static void main(String[] words) throws Exception {
        Server server = new Server();
        HttpConfiguration configuration = new HttpConfiguration();
        configuration.setUriCompliance(UriCompliance.UNSAFE);
        ServerConnector connector = new ServerConnector(server, new HttpConnectionFactory(configuration));
        connector.setHost("127.0.0.1");
        connector.setPort(Integer.parseInt(words[0]));
        server.addConnector(connector);
        ServletContextHandler context = new ServletContextHandler();
        context.setContextPath("/");
        context.addServlet(new ServletHolder(word("ADMIN")), "/admin/*");
        context.addServlet(new ServletHolder(word("OPEN")), "/*");
        server.setHandler(context);
        server.start();
        server.join();
    }
}
