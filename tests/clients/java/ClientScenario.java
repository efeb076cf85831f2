import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The client scenario of tests/kit/scenario.py with the Java client: BOOTSTRAP TOPIC BASE_TIMESTAMP_MS.
 * Prints a line per step passed; the first difference ends it with a stack trace and exit code 1.
 */
public final class ClientScenario {
    private static final String[] CODECS = {"none", "gzip", "snappy", "lz4", "zstd"};
    private static final int RECORDS_PER_RUN = 20;
    private static final int RECORD_COUNT = 2 * CODECS.length * RECORDS_PER_RUN;
    private static final int FROM_OFFSET = 57;
    private static final int FROM_TIME_INDEX = 142;

    private final String bootstrap;
    private final TopicPartition partition;
    private final long baseTimestampMs;

    private ClientScenario(String bootstrap, String topic, long baseTimestampMs) {
        this.bootstrap = bootstrap;
        this.partition = new TopicPartition(topic, 0);
        this.baseTimestampMs = baseTimestampMs;
    }

    public static void main(String[] arguments) throws Exception {
        var scenario = new ClientScenario(arguments[0], arguments[1], Long.parseLong(arguments[2]));
        try (Admin admin = Admin.create(scenario.settings())) {
            scenario.create(admin);
            scenario.produceAll();
            scenario.consumeAll();
            scenario.offsets(admin);
            scenario.alterAndDescribe(admin);
            scenario.delete(admin);
        }
    }

    private Properties settings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        return settings;
    }

    private void create(Admin admin) throws Exception {
        NewTopic topic = new NewTopic(partition.topic(), Optional.of(2), Optional.empty())
            .configs(Map.of("retention.ms", "86400000"));
        var created = admin.createTopics(List.of(topic));
        created.all().get();
        same(2, created.numPartitions(partition.topic()).get(), "partitions of the answer");
        same("86400000", created.config(partition.topic()).get().get("retention.ms").value(),
            "retention.ms of the answer");
        try {
            admin.createTopics(List.of(topic)).all().get();
            throw new AssertionError("a topic was created twice");
        } catch (ExecutionException refused) {
            same(TopicExistsException.class, refused.getCause().getClass(), "second creation");
        }
        same(1, admin.describeCluster().nodes().get().size(), "brokers");
        passed("create");
    }

    private void produceAll() throws Exception {
        int next = 0;
        for (boolean idempotent : new boolean[] {false, true}) {
            for (String codec : CODECS) {
                produce(codec, idempotent, next);
                next += RECORDS_PER_RUN;
            }
        }
        passed("produce");
    }

    private void produce(String codec, boolean idempotent, int first) throws Exception {
        Properties settings = settings();
        settings.put("compression.type", codec);
        settings.put("enable.idempotence", String.valueOf(idempotent));
        settings.put("acks", idempotent ? "all" : "1");
        settings.put("linger.ms", "50");
        var serializer = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(settings, serializer, serializer)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int index = first; index < first + RECORDS_PER_RUN; index++) {
                var record = new ProducerRecord<>(
                    partition.topic(), 0, baseTimestampMs + index * 1000L, key(index), value(index));
                record.headers().add("index", String.valueOf(index).getBytes());
                record.headers().add("empty", new byte[0]);
                sent.add(producer.send(record));
            }
            for (int at = 0; at < sent.size(); at++) {
                same((long) first + at, sent.get(at).get().offset(), "offset of a sent record");
            }
        }
    }

    private void consumeAll() {
        Properties settings = settings();
        settings.put("max.poll.records", "37");
        settings.put("enable.auto.commit", "false");
        var deserializer = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, deserializer, deserializer)) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            readToTheEnd(consumer, 0);
            passed("consume from the start");
            consumer.seek(partition, FROM_OFFSET);
            readToTheEnd(consumer, FROM_OFFSET);
            passed("consume from an offset");
            long time = baseTimestampMs + FROM_TIME_INDEX * 1000L - 1;
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, time)).get(partition);
            same((long) FROM_TIME_INDEX, found.offset(), "offset for a time");
            same(time + 1, found.timestamp(), "timestamp for a time");
            consumer.seek(partition, found.offset());
            readToTheEnd(consumer, FROM_TIME_INDEX);
            passed("consume from a time");
            same((long) RECORD_COUNT, consumer.endOffsets(List.of(partition)).get(partition), "end");
        }
    }

    private void readToTheEnd(KafkaConsumer<byte[], byte[]> consumer, int first) {
        int index = first;
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (index < RECORD_COUNT) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("only " + index + " of " + RECORD_COUNT + " records came");
            }
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                check(record, index++);
            }
        }
    }

    private void check(ConsumerRecord<byte[], byte[]> record, int index) {
        same((long) index, record.offset(), "offset");
        sameBytes(key(index), record.key(), "key of " + index);
        sameBytes(value(index), record.value(), "value of " + index);
        same(baseTimestampMs + index * 1000L, record.timestamp(), "timestamp");
        Header[] headers = record.headers().toArray();
        same(2, headers.length, "headers");
        same("index", headers[0].key(), "first header");
        sameBytes(String.valueOf(index).getBytes(), headers[0].value(), "first header");
        same("empty", headers[1].key(), "second header");
        sameBytes(new byte[0], headers[1].value(), "second header");
    }

    private void offsets(Admin admin) throws Exception {
        same(0L, offset(admin, OffsetSpec.earliest()), "earliest offset");
        same((long) RECORD_COUNT, offset(admin, OffsetSpec.latest()), "latest offset");
        same(RECORD_COUNT - 1L, offset(admin, OffsetSpec.maxTimestamp()), "offset of the newest");
        passed("list offsets");
    }

    private long offset(Admin admin, OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(partition, spec)).partitionResult(partition).get().offset();
    }

    private void alterAndDescribe(Admin admin) throws Exception {
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, partition.topic());
        var set = new AlterConfigOp(
            new ConfigEntry("retention.ms", "172800000"), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(set))).all().get();
        Config config = admin.describeConfigs(Set.of(resource)).all().get().get(resource);
        while (!config.get("retention.ms").value().equals("172800000")) {
            Thread.sleep(20);
            config = admin.describeConfigs(Set.of(resource)).all().get().get(resource);
        }
        same(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, config.get("retention.ms").source(),
            "source of retention.ms");
        same("delete", config.get("cleanup.policy").value(), "cleanup.policy");
        same(ConfigEntry.ConfigSource.DEFAULT_CONFIG, config.get("cleanup.policy").source(),
            "source of cleanup.policy");
        admin.createPartitions(Map.of(partition.topic(), NewPartitions.increaseTo(4))).all().get();
        TopicDescription topic = describe(admin);
        while (topic.partitions().size() != 4) {
            Thread.sleep(20);
            topic = describe(admin);
        }
        topic.partitions().forEach(each -> same(1, each.isr().size(), "in-sync replicas"));
        passed("alter and describe");
    }

    private TopicDescription describe(Admin admin) throws Exception {
        return admin.describeTopics(List.of(partition.topic())).allTopicNames().get().get(partition.topic());
    }

    private void delete(Admin admin) throws Exception {
        admin.deleteTopics(List.of(partition.topic())).all().get();
        while (admin.listTopics().names().get().contains(partition.topic())) {
            Thread.sleep(20);
        }
        try {
            describe(admin);
            throw new AssertionError("the topic was described after its end");
        } catch (ExecutionException gone) {
            same(UnknownTopicOrPartitionException.class, gone.getCause().getClass(), "after delete");
        }
        passed("delete");
    }

    private static byte[] key(int index) {
        return index % 10 == 9 ? null : ("key-" + index).getBytes();
    }

    private static byte[] value(int index) {
        if (index % 10 == 8) {
            return null;
        }
        byte[] value = new byte[300 + index];
        for (int at = 0; at < value.length; at++) {
            value[at] = (byte) (index * 7 + at);
        }
        return value;
    }

    private static void same(Object expected, Object actual, String what) {
        if (!expected.equals(actual)) {
            throw new AssertionError(what + ": expected " + expected + ", got " + actual);
        }
    }

    private static void sameBytes(byte[] expected, byte[] actual, String what) {
        if (!java.util.Arrays.equals(expected, actual)) {
            throw new AssertionError(what + ": the bytes differ");
        }
    }

    private static void passed(String step) {
        System.out.println("passed: " + step);
    }
}
