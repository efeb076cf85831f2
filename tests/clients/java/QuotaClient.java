import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * BOOTSTRAP TOPIC SECONDS produce|consume: as fast as it is let, with the mode as its client id.
 * Prints the bytes of values that were acknowledged or read in this time.
 */
public class QuotaClient {
    public static void main(String[] args) {
        Properties given = new Properties();
        given.put("bootstrap.servers", args[0]);
        given.put("client.id", "java-" + args[3]);
        long lastNs = Long.parseLong(args[2]) * 1_000_000_000L;
        System.out.println(
                args[3].equals("produce") ? produce(given, args[1], lastNs) : consume(given, args[1], lastNs));
    }

    private static long produce(Properties given, String topic, long lastNs) {
        AtomicLong bytes = new AtomicLong();
        byte[] value = new byte[1000];
        KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(given, new ByteArraySerializer(), new ByteArraySerializer());
        producer.partitionsFor(topic);
        long begin = System.nanoTime();
        Thread sender = new Thread(() -> {
            while (System.nanoTime() - begin < lastNs) {
                producer.send(new ProducerRecord<>(topic, value), (metadata, problem) -> {
                    if (problem == null && System.nanoTime() - begin < lastNs) {
                        bytes.addAndGet(value.length);
                    }
                });
            }
        });
        sender.setDaemon(true);
        sender.start();
        while (System.nanoTime() - begin < lastNs) {
            try {
                Thread.sleep(10);
            } catch (InterruptedException end) {
                break;
            }
        }
        producer.close(Duration.ZERO);
        return bytes.get();
    }

    private static long consume(Properties given, String topic, long lastNs) {
        long bytes = 0;
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(given, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = List.of(new TopicPartition(topic, 0));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long begin = System.nanoTime();
            while (System.nanoTime() - begin < lastNs) {
                if (bytes == 0) {
                    begin = System.nanoTime(); // with the first record
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    bytes += record.value().length;
                }
            }
        }
        return bytes;
    }
}
