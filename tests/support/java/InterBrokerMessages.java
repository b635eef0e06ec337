import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;

/**
 * Reads messages by the classes of Apache Kafka's clients, and writes them in any version.
 *
 * <p>Each line on standard input is answered by one line; the parts of both are parted by tabs.
 * <pre>
 * CLASS  VERSION  HEX  OTHER_VERSION   ->  JSON  OTHER_HEX
 * </pre>
 * OTHER_HEX is "unsupported" where the other version has no place for what the message says.
 */
public class InterBrokerMessages {
    private static final String PACKAGE = "org.apache.kafka.common.message.";
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t");
            short version = Short.parseShort(parts[1]);
            ApiMessage message = read(parts[0], version, HexFormat.of().parseHex(parts[2]));
            out.println(toJson(message, version) + "\t" + write(message, Short.parseShort(parts[3])));
        }
    }

    private static ApiMessage read(String name, short version, byte[] bytes) throws Exception {
        ApiMessage message =
            (ApiMessage) Class.forName(PACKAGE + name + "Data").getConstructor().newInstance();
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        message.read(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining()) {
            throw new IllegalArgumentException(buffer.remaining() + " bytes too many for " + message);
        }
        return message;
    }

    private static String write(ApiMessage message, short version) {
        try {
            ByteBuffer buffer = MessageUtil.toByteBuffer(message, version);
            return HexFormat.of().formatHex(buffer.array(), 0, buffer.limit());
        } catch (UnsupportedVersionException error) {
            return "unsupported";
        }
    }

    private static String toJson(ApiMessage message, short version) throws Exception {
        Class<?> type = message.getClass();
        Object json = Class.forName(type.getName() + "JsonConverter")
            .getMethod("write", type, short.class)
            .invoke(null, message, version);
        return MAPPER.writeValueAsString((JsonNode) json);
    }
}
