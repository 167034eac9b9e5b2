import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.Header;
import io.debezium.engine.format.Json;
import java.io.FileInputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Properties;

/** Runs Debezium embedded with the properties of a file and prints each message as a line: topic, key, value and headers, in base64. */
public class DebeziumLines {
    private static final PrintStream OUT = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), true, StandardCharsets.UTF_8);

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err);
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            properties.load(file);
        }
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class, Json.class, Json.class)
                .using(properties)
                .using((success, message, error) -> {
                    OUT.println("ended " + text(String.valueOf(message) + " " + error));
                })
                .notifying(DebeziumLines::print)
                .build();
        Thread thread = new Thread(engine);
        thread.start();
        while (System.in.read() >= 0) {
        }
        engine.close();
        thread.join();
        System.exit(0);
    }

    private static void print(ChangeEvent<String, String> event) {
        StringBuilder headers = new StringBuilder();
        for (Header<?> header : event.headers()) {
            headers.append(' ').append(header.getKey()).append('=').append(text(String.valueOf(header.getValue())));
        }
        OUT.println("message " + event.destination() + " " + text(event.key()) + " " + text(event.value()) + headers);
    }

    private static String text(String value) {
        return value == null ? "-" : "=" + Base64.getEncoder().encodeToString(value.getBytes(StandardCharsets.UTF_8));
    }
}
