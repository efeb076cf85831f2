import java.time.Duration;
import java.util.Collections;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What a client of Kafka 2.1 does, the oldest that Kafka 4 serves: topics, idempotence with all
 * compressions, a transaction that commits offsets too, one that is aborted, a group.
 */
public class OldestClient {
  private static final String[] COMPRESSIONS = {"none", "gzip", "snappy", "lz4", "zstd"};
  private static final long PATIENCE_MS = 60_000;

  public static void main(String[] arguments) throws Exception {
    String topic = arguments[1];
    try (AdminClient admin = AdminClient.create(settings(arguments[0]))) {
      NewTopic wanted = new NewTopic(topic, 2, (short) 1);
      admin.createTopics(Collections.singleton(wanted)).all().get();
      for (String compression : COMPRESSIONS) {
        produce(arguments[0], topic, compression);
      }
      transact(arguments[0], topic);
      System.out.println("read: " + String.join(" ", read(arguments[0], topic)));
      Map<TopicPartition, OffsetAndMetadata> offsets =
          admin.listConsumerGroupOffsets(topic + "-sent").partitionsToOffsetAndMetadata().get();
      System.out.println("committed: " + offsets.get(new TopicPartition(topic, 0)).offset());
      admin.deleteTopics(Collections.singleton(topic)).all().get();
    }
  }

  private static Properties settings(String bootstrap, String... more) {
    Properties settings = new Properties();
    settings.put("bootstrap.servers", bootstrap);
    for (int i = 0; i < more.length; i += 2) {
      settings.put(more[i], more[i + 1]);
    }
    return settings;
  }

  private static KafkaProducer<String, String> producer(Properties settings) {
    return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
  }

  private static void produce(String bootstrap, String topic, String compression) throws Exception {
    Properties settings =
        settings(bootstrap, "compression.type", compression, "enable.idempotence", "true");
    try (KafkaProducer<String, String> producer = producer(settings)) {
      producer.send(new ProducerRecord<>(topic, "key", compression)).get();
    }
  }

  private static void transact(String bootstrap, String topic) throws Exception {
    Properties settings = settings(bootstrap, "transactional.id", topic);
    try (KafkaProducer<String, String> producer = producer(settings)) {
      producer.initTransactions();
      producer.beginTransaction();
      producer.send(new ProducerRecord<>(topic, "key", "transaction"));
      TopicPartition partition = new TopicPartition(topic, 0);
      producer.sendOffsetsToTransaction(
          Collections.singletonMap(partition, new OffsetAndMetadata(3)), topic + "-sent");
      producer.commitTransaction();
      producer.beginTransaction();
      producer.send(new ProducerRecord<>(topic, "key", "aborted")).get();
      producer.abortTransaction();
      producer.beginTransaction();
      producer.send(new ProducerRecord<>(topic, "key", "zz-last"));
      producer.commitTransaction();
    }
  }

  private static TreeSet<String> read(String bootstrap, String topic) {
    TreeSet<String> values = new TreeSet<>();
    Properties settings =
        settings(
            bootstrap,
            "group.id", topic,
            "auto.offset.reset", "earliest",
            "isolation.level", "read_committed");
    long end = System.currentTimeMillis() + PATIENCE_MS;
    try (KafkaConsumer<String, String> consumer =
        new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
      consumer.subscribe(Collections.singleton(topic));
      while (!values.contains("zz-last") && System.currentTimeMillis() < end) {
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
          values.add(record.value());
        }
      }
      consumer.commitSync();
    }
    return values;
  }
}
