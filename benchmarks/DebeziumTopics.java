import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.Header;
import io.debezium.engine.format.Json;
import java.io.FileInputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Runs Debezium embedded with the properties of a file and sends each message to the broker of the second argument, until input ends. */
public class DebeziumTopics {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            properties.load(file);
        }
        Properties sink = new Properties();
        sink.put("bootstrap.servers", arguments[1]);
        sink.put("acks", "all");
        sink.put("enable.idempotence", "true");
        sink.put("compression.type", "lz4");
        sink.put("linger.ms", "20");
        sink.put("batch.size", "100000");
        KafkaProducer<String, String> producer = new KafkaProducer<>(sink, new StringSerializer(), new StringSerializer());
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class, Json.class, Json.class)
                .using(properties)
                .using((success, message, error) -> {
                    System.err.println("ended " + message + " " + error);
                })
                .notifying((List<ChangeEvent<String, String>> events, DebeziumEngine.RecordCommitter<ChangeEvent<String, String>> committer) -> {
                    for (ChangeEvent<String, String> event : events) {
                        ProducerRecord<String, String> message = new ProducerRecord<>(event.destination(), event.key(), event.value());
                        for (Header<?> header : event.headers()) {
                            message.headers().add(header.getKey(), String.valueOf(header.getValue()).getBytes(StandardCharsets.UTF_8));
                        }
                        producer.send(message);
                        committer.markProcessed(event);
                    }
                    producer.flush();
                    committer.markBatchFinished();
                })
                .build();
        Thread thread = new Thread(engine);
        thread.start();
        while (System.in.read() >= 0) {
        }
        engine.close();
        thread.join();
        producer.close();
        System.exit(0);
    }
}
