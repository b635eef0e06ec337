import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Apache Kafka's consumer reading one partition from its beginning, with the client settings of
 * ConsumerPerformance, but by assign() in place of a consumer group.
 * Arguments: ADDRESS TOPIC COUNT SECONDS_MAX. Prints one JSON line.
 */
public class AssignConsumer {
    public static void main(String[] arguments) {
        String topic = arguments[1];
        long wanted = Long.parseLong(arguments[2]);
        long secondsMax = Long.parseLong(arguments[3]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("enable.auto.commit", "false");
        settings.put("receive.buffer.bytes", "2097152");
        settings.put("max.partition.fetch.bytes", "1048576");
        settings.put("check.crcs", "false");
        long count = 0;
        long bytes = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            List<TopicPartition> partitions = List.of(new TopicPartition(topic, 0));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long begin = System.nanoTime();
            long deadline = begin + secondsMax * 1_000_000_000L;
            while (count < wanted && System.nanoTime() < deadline) {
                for (var record : consumer.poll(Duration.ofMillis(1000))) {
                    count++;
                    bytes += record.value().length;
                }
            }
            double seconds = (System.nanoTime() - begin) / 1e9;
            System.out.printf("{\"count\": %d, \"bytes\": %d, \"elapsed_s\": %.6f}%n", count, bytes, seconds);
        }
        if (count < wanted) {
            System.err.println("only " + count + " of " + wanted + " records came");
            System.exit(1);
        }
    }
}
