import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Apache Kafka's consumers, each in a thread of its own, as a test tells them by lines:
 *
 *   subscribe NAME TOPICS SETTING=VALUE...   TOPICS is A,B or ^PATTERN (Java's) or ~PATTERN (RE2)
 *   assign NAME TOPIC SETTING=VALUE...       to all partitions, by itself
 *   commit NAME sync|async                   what it has read
 *   seek NAME TIMESTAMP                      in every partition that it has
 *   show NAME                                as JSON, which is the answer
 *   close NAME
 *
 * Words are apart by tabs. Each line is answered by one line. Ends with its standard input.
 */
public class GroupMembers {
    private static final Map<String, Member> members = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(line.split("\t")));
            System.out.flush();
        }
        for (Member member : members.values()) {
            member.close();
        }
    }

    private static String answer(String[] words) throws Exception {
        String name = words[1];
        switch (words[0]) {
            case "subscribe":
            case "assign":
                Member member = new Member(name, Arrays.copyOfRange(words, 3, words.length));
                if (words[0].equals("subscribe")) {
                    member.subscribe(words[2]);
                } else {
                    member.assign(words[2]);
                }
                members.put(name, member);
                member.start();
                return "ok";
            case "commit":
                members.get(name).commit(words[2].equals("sync"));
                return "ok";
            case "seek":
                members.get(name).seek(Long.parseLong(words[2]));
                return "ok";
            case "show":
                return members.get(name).show();
            case "close":
                members.remove(name).close();
                return "ok";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static class Member extends Thread implements ConsumerRebalanceListener {
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final ConcurrentLinkedQueue<Runnable> orders = new ConcurrentLinkedQueue<>();
        private final List<String> events = new ArrayList<>();
        private final List<String> values = new ArrayList<>();
        private final List<String> commits = new ArrayList<>();
        private Collection<TopicPartition> owned = List.of();
        private int pollMax = 0;
        private String error = "";
        private volatile boolean isClosing = false;

        Member(String name, String[] settings) {
            super(name);
            Properties properties = new Properties();
            properties.put("client.id", name);
            properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
            properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
            properties.put("auto.offset.reset", "earliest");
            properties.put("metadata.max.age.ms", "500");
            for (String setting : settings) {
                String[] pair = setting.split("=", 2);
                boolean isOwn = pair[1].equals(HeaviestTakesAll.class.getSimpleName());
                // By its class, since it has no class file to be found by name.
                properties.put(pair[0], isOwn ? List.of(HeaviestTakesAll.class) : pair[1]);
            }
            consumer = new KafkaConsumer<>(properties);
        }

        void subscribe(String topics) {
            if (topics.startsWith("^")) {
                consumer.subscribe(Pattern.compile(topics), this);
            } else if (topics.startsWith("~")) {
                consumer.subscribe(new SubscriptionPattern(topics.substring(1)), this);
            } else {
                consumer.subscribe(List.of(topics.split(",")), this);
            }
        }

        void assign(String topic) {
            List<TopicPartition> all = new ArrayList<>();
            for (PartitionInfo partition : consumer.partitionsFor(topic)) {
                all.add(new TopicPartition(topic, partition.partition()));
            }
            consumer.assign(all);
        }

        @Override
        public void run() {
            try (consumer) {
                while (!isClosing) {
                    for (Runnable order = orders.poll(); order != null; order = orders.poll()) {
                        order.run();
                    }
                    note(consumer.poll(Duration.ofMillis(50)));
                }
            } catch (RuntimeException failure) {
                synchronized (this) {
                    error = failure.getClass().getSimpleName();
                }
            }
        }

        private synchronized void note(ConsumerRecords<byte[], byte[]> records) {
            owned = consumer.assignment();
            pollMax = Math.max(pollMax, records.count());
            records.forEach(record -> values.add(new String(record.value(), StandardCharsets.UTF_8)));
        }

        void commit(boolean isSync) {
            orders.add(() -> {
                if (isSync) {
                    consumer.commitSync();
                    told("sync");
                } else {
                    consumer.commitAsync((offsets, failure) -> told(failure == null ? "async" : failure.toString()));
                }
            });
        }

        private synchronized void told(String commit) {
            commits.add(commit);
        }

        void seek(long timestamp) {
            orders.add(() -> {
                Map<TopicPartition, Long> wanted = new HashMap<>();
                consumer.assignment().forEach(partition -> wanted.put(partition, timestamp));
                synchronized (this) {
                    values.clear();
                }
                consumer.offsetsForTimes(wanted).forEach((partition, found) -> consumer.seek(partition, found.offset()));
            });
        }

        void close() throws InterruptedException {
            isClosing = true;
            join();
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            event("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            event("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            event("lost", partitions);
        }

        private synchronized void event(String kind, Collection<TopicPartition> partitions) {
            events.add("[\"" + kind + "\"," + json(names(partitions)) + "]");
        }

        synchronized String show() {
            return "{\"owned\":" + json(names(owned))
                + ",\"events\":[" + String.join(",", events) + "]"
                + ",\"values\":" + json(values)
                + ",\"commits\":" + json(commits)
                + ",\"poll_max\":" + pollMax
                + ",\"error\":\"" + error + "\"}";
        }
    }

    private static Collection<String> names(Collection<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::toString).collect(Collectors.toCollection(TreeSet::new));
    }

    private static String json(Collection<String> texts) {
        return texts.stream().map(text -> "\"" + text + "\"").collect(Collectors.joining(",", "[", "]"));
    }

    /** An assignor that Kafka does not have. Members say what they weigh, in `weight`. */
    public static class HeaviestTakesAll implements ConsumerPartitionAssignor, Configurable {
        private String weight;

        @Override
        public String name() {
            return "heaviest-takes-all";
        }

        @Override
        public void configure(Map<String, ?> settings) {
            weight = (String) settings.get("weight");
        }

        @Override
        public ByteBuffer subscriptionUserData(Set<String> topics) {
            return ByteBuffer.wrap(weight.getBytes(StandardCharsets.UTF_8));
        }

        @Override
        public GroupAssignment assign(Cluster cluster, GroupSubscription group) {
            Map<String, Integer> weights = new LinkedHashMap<>();
            Map<String, Assignment> assignments = new HashMap<>();
            List<TopicPartition> all = new ArrayList<>();
            group.groupSubscription().forEach((member, subscription) -> {
                weights.put(member, Integer.parseInt(StandardCharsets.UTF_8.decode(subscription.userData()).toString()));
                assignments.put(member, new Assignment(List.of()));
                for (String topic : subscription.topics()) {
                    for (PartitionInfo partition : cluster.partitionsForTopic(topic)) {
                        TopicPartition one = new TopicPartition(topic, partition.partition());
                        if (!all.contains(one)) {
                            all.add(one);
                        }
                    }
                }
            });
            String heaviest = weights.keySet().stream().max(Comparator.comparing(weights::get)).orElseThrow();
            assignments.put(heaviest, new Assignment(all));
            return new GroupAssignment(assignments);
        }
    }
}
