import io.debezium.embedded.Connect;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.Header;
import io.debezium.engine.format.Json;
import java.io.FileInputStream;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;
import org.postgresql.copy.CopyIn;
import org.postgresql.copy.CopyManager;
import org.postgresql.core.BaseConnection;

/**
 * Runs Debezium embedded with the properties of a file, until input ends, and prints how many events each batch brought the sink to.
 *
 * <p>The second argument is the sink: {@code json} and {@code structs} take the events in that form and do nothing with them,
 * {@code topic SERVERS} sends them as JSON, {@code table URL NAME COLUMN...} merges each batch into a table, whose key is the first column.
 */
public class DebeziumSinks {
    private static long done = 0;

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            properties.load(file);
        }
        DebeziumEngine<?> engine;
        switch (arguments[1]) {
            case "json" -> engine = json(properties, null);
            case "topic" -> engine = json(properties, producer(arguments[2]));
            case "structs" -> engine = structs(properties, null);
            default -> engine = structs(properties, new Table(arguments[2], arguments[3], List.of(arguments).subList(4, arguments.length)));
        }
        Thread thread = new Thread(engine);
        thread.start();
        while (System.in.read() >= 0) {
        }
        engine.close();
        thread.join();
        System.exit(0);
    }

    private static KafkaProducer<String, String> producer(String servers) {
        Properties sink = new Properties();
        sink.put("bootstrap.servers", servers);
        sink.put("acks", "all");
        sink.put("enable.idempotence", "true");
        sink.put("compression.type", "lz4");
        sink.put("linger.ms", "20");
        sink.put("batch.size", "100000");
        return new KafkaProducer<>(sink, new StringSerializer(), new StringSerializer());
    }

    private static DebeziumEngine<?> json(Properties properties, KafkaProducer<String, String> producer) {
        return DebeziumEngine.create(Json.class, Json.class, Json.class)
                .using(properties)
                .using((success, message, error) -> System.err.println("ended " + message + " " + error))
                .notifying((List<ChangeEvent<String, String>> events, DebeziumEngine.RecordCommitter<ChangeEvent<String, String>> committer) -> {
                    for (ChangeEvent<String, String> event : events) {
                        if (producer != null) {
                            ProducerRecord<String, String> message = new ProducerRecord<>(event.destination(), event.key(), event.value());
                            for (Header<?> header : event.headers()) {
                                message.headers().add(header.getKey(), String.valueOf(header.getValue()).getBytes(StandardCharsets.UTF_8));
                            }
                            producer.send(message);
                        }
                        committer.markProcessed(event);
                    }
                    if (producer != null) {
                        producer.flush();
                    }
                    committer.markBatchFinished();
                    tell(events.size());
                })
                .build();
    }

    private static DebeziumEngine<?> structs(Properties properties, Table table) {
        return DebeziumEngine.create(Connect.class)
                .using(properties)
                .using((success, message, error) -> System.err.println("ended " + message + " " + error))
                .notifying((List<ChangeEvent<SourceRecord, SourceRecord>> events,
                        DebeziumEngine.RecordCommitter<ChangeEvent<SourceRecord, SourceRecord>> committer) -> {
                    long count = 0;
                    Map<Object, Struct> last = new LinkedHashMap<>();
                    for (ChangeEvent<SourceRecord, SourceRecord> event : events) {
                        Struct value = (Struct) event.value().value();
                        if (value.schema().field("op") != null) { // and no change of a schema
                            count++;
                            if (table != null) {
                                Struct key = (Struct) event.value().key();
                                last.put(key.get(key.schema().fields().get(0)), value.getStruct("after"));
                            }
                        }
                        committer.markProcessed(event);
                    }
                    if (!last.isEmpty()) {
                        table.merge(last);
                    }
                    committer.markBatchFinished();
                    tell(count);
                })
                .build();
    }

    private static void tell(long more) {
        done += more;
        System.out.println(done);
        System.out.flush();
    }

    /** Merges rows into a table of PostgreSQL: COPY into a staging table of the session, DELETE and INSERT from there, one transaction. */
    private static final class Table {
        private final Connection connection;
        private final String name;
        private final List<String> columns;

        Table(String url, String name, List<String> columns) throws Exception {
            this.connection = DriverManager.getConnection(url);
            this.name = name;
            this.columns = columns;
            connection.setAutoCommit(false);
            try (Statement statement = connection.createStatement()) {
                statement.execute("CREATE TEMPORARY TABLE staged (LIKE " + name + ", gone boolean) ON COMMIT DELETE ROWS");
            }
            connection.commit();
        }

        void merge(Map<Object, Struct> rows) {
            String key = columns.get(0);
            String all = String.join(", ", columns);
            try (Statement statement = connection.createStatement()) {
                CopyIn copy = new CopyManager(connection.unwrap(BaseConnection.class)).copyIn("COPY staged (" + all + ", gone) FROM STDIN");
                StringBuilder text = new StringBuilder();
                for (Map.Entry<Object, Struct> row : rows.entrySet()) {
                    write(text, row.getKey(), row.getValue());
                }
                byte[] bytes = text.toString().getBytes(StandardCharsets.UTF_8);
                copy.writeToCopy(bytes, 0, bytes.length);
                copy.endCopy();
                statement.execute("DELETE FROM " + name + " USING staged WHERE " + name + "." + key + " = staged." + key);
                statement.execute("INSERT INTO " + name + " (" + all + ") SELECT " + all + " FROM staged WHERE NOT gone");
                connection.commit();
            } catch (Exception error) {
                throw new RuntimeException(error);
            }
        }

        private void write(StringBuilder text, Object key, Struct row) {
            if (row == null) {
                text.append(key);
                text.append("\t\\N".repeat(columns.size() - 1)).append("\ttrue\n");
                return;
            }
            for (String column : columns) {
                Field field = row.schema().field(column);
                Object value = row.get(field);
                String form = field.schema().name();
                if (value == null) {
                    text.append("\\N");
                } else if ("io.debezium.time.MicroTimestamp".equals(form)) {
                    long micros = (Long) value;
                    text.append(LocalDateTime.ofEpochSecond(Math.floorDiv(micros, 1_000_000L), (int) Math.floorMod(micros, 1_000_000L) * 1000,
                            ZoneOffset.UTC));
                } else if (value instanceof String words) {
                    escape(text, words);
                } else {
                    text.append(value);
                }
                text.append('\t');
            }
            text.append("false\n");
        }

        private static void escape(StringBuilder text, String words) {
            for (int place = 0; place < words.length(); place++) {
                char letter = words.charAt(place);
                switch (letter) {
                    case '\\' -> text.append("\\\\");
                    case '\t' -> text.append("\\t");
                    case '\n' -> text.append("\\n");
                    case '\r' -> text.append("\\r");
                    default -> text.append(letter);
                }
            }
        }
    }
}
