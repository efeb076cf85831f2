import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/** Reads messages with Kafka's own classes and writes them again; or lists Kafka's error codes. */
public class WireOracle {
    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 0) {
            listErrors();
            return;
        }
        List<String> answers = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] words = line.split(" ");
            answers.add(rewritten(words[0], Short.parseShort(words[1]), words[2]));
        }
        Files.write(Path.of(arguments[1]), answers);
    }

    private static String rewritten(String className, short version, String hex) {
        try {
            Message message = (Message) Class.forName(className).getConstructor().newInstance();
            ByteBuffer input = ByteBuffer.wrap(HexFormat.of().parseHex(hex));
            message.read(new ByteBufferAccessor(input), version);
            if (input.hasRemaining()) {
                return input.remaining() + " bytes were not read";
            }
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer output = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(output), cache, version);
            return HexFormat.of().formatHex(output.array());
        } catch (Exception exception) {
            return exception.toString().replace('\n', ' ');
        }
    }

    private static void listErrors() {
        for (Errors error : Errors.values()) {
            boolean retriable = error.exception() instanceof RetriableException;
            System.out.println(error.code() + " " + error.name() + " " + retriable);
        }
    }
}
