import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Apache Kafka's producer and consumer with their own defaults: a line with an address and a group
 * comes in, one record is sent to a new topic and read by the group, and a line goes out; another
 * one when both are closed.
 */
public class FirstRecord {
    private static final long PATIENCE_MS = 60_000;

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            firstRecord(words[0], words[1]);
        }
    }

    private static void firstRecord(String address, String group) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        settings.put("group.id", group);
        settings.put("auto.offset.reset", "earliest");
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings);
                KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            producer.send(new ProducerRecord<>("first", "hello")).get();
            consumer.subscribe(List.of("first"));
            long deadline = System.currentTimeMillis() + PATIENCE_MS;
            while (consumer.poll(Duration.ofMillis(1000)).isEmpty()) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("no record came");
                }
            }
            System.out.printf("{\"group\": \"%s\"}%n", group);
            System.out.flush();
        }
        System.out.printf("{\"closed\": \"%s\"}%n", group);
        System.out.flush();
    }
}
