import java.io.FileInputStream;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * For each properties file: create a topic, produce in a transaction, consume it in a group. Prints
 * a line per file, "ok" or the class and the message of the exception.
 */
public class SecureClient {
    public static void main(String[] files) throws Exception {
        for (String file : files) {
            Properties properties = new Properties();
            try (FileInputStream in = new FileInputStream(file)) {
                properties.load(in);
            }
            // Java asks no token endpoint that it is not told of in this way, too.
            String url = properties.getProperty("sasl.oauthbearer.token.endpoint.url", "");
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", url);
            System.out.println(outcome(properties));
        }
    }

    private static String outcome(Properties properties) {
        try {
            run(properties);
            return "ok";
        } catch (Throwable problem) {
            Throwable cause = problem;
            while (cause.getCause() != null
                    && (cause instanceof ExecutionException
                            || !cause.getClass().getName().contains("AuthenticationException"))) {
                cause = cause.getCause();
            }
            String text = cause.getMessage() == null ? "" : cause.getMessage().replace('\n', ' ');
            return cause.getClass().getSimpleName() + ": " + text;
        }
    }

    private static void run(Properties properties) throws Exception {
        String topic = "secure-" + System.nanoTime();
        Properties given = new Properties();
        given.putAll(properties);
        given.put("default.api.timeout.ms", "60000");
        given.put("request.timeout.ms", "30000");
        try (Admin admin = Admin.create(given)) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
        }
        Properties producing = new Properties();
        producing.putAll(properties);
        producing.put("transactional.id", topic);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(producing, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            for (int i = 0; i < 100; i++) {
                producer.send(new ProducerRecord<>(topic, "key", "value-" + i));
            }
            producer.commitTransaction();
        }
        Properties consuming = new Properties();
        consuming.putAll(properties);
        consuming.put("group.id", topic);
        consuming.put("auto.offset.reset", "earliest");
        consuming.put("isolation.level", "read_committed");
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(consuming, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            int count = 0;
            long end = System.nanoTime() + 60_000_000_000L;
            while (count < 100 && System.nanoTime() < end) {
                count += consumer.poll(Duration.ofMillis(200)).count();
            }
            consumer.commitSync();
            if (count != 100) {
                throw new IllegalStateException("read " + count + " of 100 records");
            }
        }
    }
}
