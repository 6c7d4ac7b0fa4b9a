import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;

/** java -Dsun.net.httpserver.idleInterval=SECONDS Receiver.java HOST PORT */
public class Receiver {
    public static void main(String[] args) throws Exception {
        var address = new InetSocketAddress(args[0], Integer.parseInt(args[1]));
        var server = HttpServer.create(address, 0);
        server.createContext("/", exchange -> {
            exchange.getRequestBody().readAllBytes();
            exchange.sendResponseHeaders(204, -1);
            exchange.close();
        });
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.start();
    }
}
