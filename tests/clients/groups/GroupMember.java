// One member of a group: BOOTSTRAP GROUP PATTERN STRATEGY. What it prints is in tests/group_kit/member.py.

import java.time.Duration;
import java.util.Collection;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class GroupMember implements ConsumerRebalanceListener {
    private static final String PACKAGE = "org.apache.kafka.clients.consumer.";
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", PACKAGE + "RangeAssignor",
        "roundrobin", PACKAGE + "RoundRobinAssignor",
        "cooperative", PACKAGE + "CooperativeStickyAssignor");

    public static void main(String[] arguments) throws Exception {
        String strategy = arguments[3];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("metadata.max.age.ms", "500");
        if (strategy.equals("consumer")) {
            settings.put("group.protocol", "consumer");
        } else {
            settings.put("partition.assignment.strategy", ASSIGNORS.get(strategy));
            settings.put("session.timeout.ms", "3000");
            settings.put("heartbeat.interval.ms", "500");
        }
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            AtomicBoolean askedToLeave = new AtomicBoolean();
            Thread main = Thread.currentThread();
            Runtime.getRuntime().addShutdownHook(new Thread(() -> {
                askedToLeave.set(true);
                try {
                    main.join();
                } catch (InterruptedException impossible) {
                    throw new IllegalStateException(impossible);
                }
            }));
            GroupMember member = new GroupMember(consumer);
            if (strategy.equals("consumer")) {
                // The broker matches the pattern.
                consumer.subscribe(new SubscriptionPattern(arguments[2]), member);
            } else {
                consumer.subscribe(Pattern.compile(arguments[2]), member);
            }
            boolean isCommitted = false;
            while (!isCommitted || !askedToLeave.get()) {
                isCommitted = member.consume();
            }
        }
        System.out.println("{\"event\":\"closed\"}");
    }

    private final KafkaConsumer<byte[], byte[]> consumer;

    private GroupMember(KafkaConsumer<byte[], byte[]> consumer) {
        this.consumer = consumer;
    }

    /** Whether all that was printed is committed. */
    private boolean consume() {
        try {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                System.out.printf(
                    "{\"event\":\"record\",\"partition\":\"%s/%d\",\"offset\":%d}%n",
                    record.topic(), record.partition(), record.offset());
            }
            return commit();
        } catch (ApiException expelled) {
            System.err.println(expelled);
            return false;
        }
    }

    /**
     * An expelled member goes on: what it tried changed nothing, and it joins again. A cooperative
     * one reads on while it joins, but the client refuses its commits until it has.
     */
    private boolean commit() {
        try {
            consumer.commitSync();
            return true;
        } catch (CommitFailedException | ApiException refused) {
            System.err.println(refused);
            return false;
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        print("assigned", partitions);
    }

    /** The last moment to commit what was read in a rebalance: the next owner begins there. */
    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        commit();
        print("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        print("revoked", partitions);
    }

    private static void print(String event, Collection<TopicPartition> partitions) {
        String names = partitions.stream()
            .map(at -> "\"" + at.topic() + "/" + at.partition() + "\"")
            .collect(Collectors.joining(","));
        System.out.printf("{\"event\":\"%s\",\"partitions\":[%s]}%n", event, names);
    }
}
