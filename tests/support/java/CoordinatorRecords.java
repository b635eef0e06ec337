import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.transaction.TransactionCoordinatorRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * The records of an Apache Kafka coordinator, "group" or "transaction" as the argument says, between
 * bytes and JSON, by its own classes.
 *
 * <p>Each line on standard input is answered by one line; the parts of both are parted by tabs.
 * <pre>
 * encode  KEY_CLASS  KEY_JSON  VALUE_CLASS  VERSION  VALUE_JSON   ->  KEY_HEX  VALUE_HEX
 * decode  KEY_HEX  VALUE_HEX   ->  KEY_CLASS  KEY_JSON  VALUE_CLASS  VERSION  VALUE_JSON
 * </pre>
 * Without the last three parts a record to encode is a tombstone, whose VALUE_HEX is "null".
 */
public class CoordinatorRecords {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static String generated;
    private static CoordinatorRecordSerde serde;

    public static void main(String[] arguments) throws Exception {
        generated = "org.apache.kafka.coordinator." + arguments[0] + ".generated.";
        serde = arguments[0].equals("group")
            ? new GroupCoordinatorRecordSerde()
            : new TransactionCoordinatorRecordSerde();
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            out.println(parts[0].equals("encode") ? encode(parts) : decode(parts));
        }
    }

    private static String encode(String[] parts) throws Exception {
        ApiMessage key = fromJson(parts[1], (short) 0, parts[2]);
        CoordinatorRecord record;
        if (parts.length > 3) {
            short version = Short.parseShort(parts[4]);
            ApiMessage value = fromJson(parts[3], version, parts[5]);
            record = CoordinatorRecord.record(key, new ApiMessageAndVersion(value, version));
        } else {
            record = CoordinatorRecord.tombstone(key);
        }
        byte[] value = serde.serializeValue(record);
        String valueHex = value == null ? "null" : HexFormat.of().formatHex(value);
        return HexFormat.of().formatHex(serde.serializeKey(record)) + "\t" + valueHex;
    }

    private static String decode(String[] parts) throws Exception {
        ByteBuffer key = ByteBuffer.wrap(HexFormat.of().parseHex(parts[1]));
        ByteBuffer value =
            parts[2].equals("null") ? null : ByteBuffer.wrap(HexFormat.of().parseHex(parts[2]));
        CoordinatorRecord record = serde.deserialize(key, value);
        String text = name(record.key()) + "\t" + toJson(record.key(), (short) 0);
        if (record.value() == null) {
            return text;
        }
        ApiMessage message = record.value().message();
        short version = record.value().version();
        return text + "\t" + name(message) + "\t" + version + "\t" + toJson(message, version);
    }

    private static ApiMessage fromJson(String name, short version, String json) throws Exception {
        Method read = converter(name).getMethod("read", JsonNode.class, short.class);
        return (ApiMessage) read.invoke(null, MAPPER.readTree(json), version);
    }

    private static String toJson(ApiMessage message, short version) throws Exception {
        Method write =
            converter(name(message)).getMethod("write", message.getClass(), short.class);
        return MAPPER.writeValueAsString(write.invoke(null, message, version));
    }

    private static Class<?> converter(String name) throws ClassNotFoundException {
        return Class.forName(generated + name + "JsonConverter");
    }

    private static String name(ApiMessage message) {
        return message.getClass().getSimpleName();
    }
}
