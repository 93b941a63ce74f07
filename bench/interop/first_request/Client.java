import java.net.Socket;
import java.security.cert.X509Certificate;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManager;
import javax.net.ssl.X509TrustManager;

/** The JDK's TLS, as it is by default: with Nagle's algorithm. Arguments: PORT TIMES VERSION. Prints the microseconds of each first request. */
public class Client {
    private static final class Anyone implements X509TrustManager {
        public void checkClientTrusted(X509Certificate[] chain, String type) {}

        public void checkServerTrusted(X509Certificate[] chain, String type) {}

        public X509Certificate[] getAcceptedIssuers() {
            return new X509Certificate[0];
        }
    }

    public static void main(String[] arguments) throws Exception {
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, new TrustManager[] {new Anyone()}, null);
        for (int time = 0; time < Integer.parseInt(arguments[1]); time++) {
            try (SSLSocket stream =
                    (SSLSocket) context.getSocketFactory().createSocket("127.0.0.1", Integer.parseInt(arguments[0]))) {
                stream.setEnabledProtocols(new String[] {"TLSv" + arguments[2]});
                stream.startHandshake();
                long began = System.nanoTime();
                stream.getOutputStream().write("ping".getBytes());
                if (stream.getInputStream().readNBytes(4).length != 4) {
                    throw new IllegalStateException("no answer");
                }
                System.out.println((System.nanoTime() - began) / 1000);
            }
        }
    }
}
