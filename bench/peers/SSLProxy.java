import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.security.KeyStore;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLServerSocket;
import javax.net.ssl.SSLSocket;

/**
 * A TLS proxy of the kind that was slow in 2005: two threads per session, one copying each way, blocking sockets.
 *
 * <p>In: port, PKCS#12 file, its password, backend host, backend port. Out: the proxy, until it is killed.
 *
 * <p>The design is the old one on purpose, and nothing else is: the virtual machine, its TLS 1.3 and its compiler are
 * those of today, copies go through 16 KiB, Nagle's algorithm is off, nothing is logged.
 */
public final class SSLProxy {
    private static final int BUFFER = 16 * 1024;

    private SSLProxy() {}

    public static void main(String[] words) throws Exception {
        int port = Integer.parseInt(words[0]);
        char[] password = words[2].toCharArray();
        KeyStore store = KeyStore.getInstance("PKCS12");
        try (InputStream file = new FileInputStream(words[1])) {
            store.load(file, password);
        }
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(store, password);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), null, null);

        InetSocketAddress backend = new InetSocketAddress(words[3], Integer.parseInt(words[4]));
        ServerSocket listener = context.getServerSocketFactory()
                .createServerSocket(port, 4096, InetAddress.getByName("127.0.0.1"));
        SSLParameters parameters = ((SSLServerSocket) listener).getSSLParameters();
        parameters.setProtocols(new String[] {"TLSv1.3", "TLSv1.2"});
        ((SSLServerSocket) listener).setSSLParameters(parameters);
        while (true) {
            SSLSocket client = (SSLSocket) listener.accept();
            new Thread(() -> serve(client, backend), "session").start();
        }
    }

    /** The session's first thread: handshake, dial, then copy from the client to the backend. */
    private static void serve(SSLSocket client, InetSocketAddress backend) {
        Socket server = new Socket();
        try {
            client.setTcpNoDelay(true);
            client.startHandshake();
            server.setTcpNoDelay(true);
            server.connect(backend, 10_000);
            Thread back = new Thread(() -> copyBack(server, client), "session-back");
            back.start();
            copy(client.getInputStream(), server.getOutputStream());
            server.shutdownOutput();
            back.join();
        } catch (IOException | InterruptedException gone) {
            // The generator sees every failure from its side, and counts it.
        } finally {
            close(server);
            close(client);
        }
    }

    /** The session's second thread: copies from the backend to the client, then ends that direction. */
    private static void copyBack(Socket server, SSLSocket client) {
        try {
            copy(server.getInputStream(), client.getOutputStream());
            client.shutdownOutput();
        } catch (IOException gone) {
            close(client);
        }
    }

    private static void copy(InputStream from, OutputStream to) throws IOException {
        byte[] buffer = new byte[BUFFER];
        int count;
        while ((count = from.read(buffer)) >= 0) {
            to.write(buffer, 0, count);
        }
    }

    private static void close(Socket socket) {
        try {
            socket.close();
        } catch (IOException gone) {
            // It is closed either way.
        }
    }
}
